// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/base/collective.h"
#include "core/base/error.h"
#include "parallel/comm/operation.h"

namespace llmtrain {

// The reason why all ranks end: the error of the rank that failed first.
struct Failure {
  int rank = 0;
  ExitCode code = ExitCode::internal_error;
  std::string message;
};

// How many elements are sent to and received from each position of a group.
struct AllToAllCounts {
  std::span<const std::int64_t> input;
  std::span<const std::int64_t> output;
};

// Communication of one rank with the others. Backends: local (ranks as threads), mpi, and layered over one of these
// staged and nccl.
//
// Operations start immediately and proceed while the rank computes; the Handle reports when they are complete. Until
// then their memory belongs to them. Input and output may overlap only where an operation says so. All members of a
// group start the same collectives on it in the same order; messages between two positions of a group arrive in the
// order in which they were sent. A send may not complete before its receive has started. One thread at a time starts
// operations of a rank; any thread may wait.
//
// Only the staged and nccl backends take memory of a GPU; they take host memory as well. There an operation starts
// after all work that the rank's compute stream holds when it is called, and work enqueued on that stream after wait()
// follows it: memory may be released after wait() if it is reused in the stream's own order.
//
// Sums have a fixed order: value of position 0 + value of position 1 + …, in fp32 for the 16-bit and 8-bit floating
// types, rounded to them once at the end (to nearest, ties to even; fp8_e4m3, which has no infinity, saturates at
// ±448). So every rank gets the same bits, in every run, by every algorithm. (NCCL uses its own order: there
// only the same layout repeats its bits.)
//
// Errors: an operation for which a rank has waited longer than the watchdog's time throws Error(rank_lost) that names
// the operation and the missing ranks; from then on, as after abort(), every operation of every rank throws the same
// error. Misuse (different types, counts that do not match) throws Error(internal_error).
class Communicator {
 public:
  virtual ~Communicator() = default;
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // All ranks, by rank.
  const Group& world() const { return world_; }
  // A group of `ranks` in the given order, which must include this rank. May block until all members have called it
  // with the same ranks and use; members create the groups that they share in the same order. `name` is for messages.
  // Collectives of a group of one rank complete immediately.
  Group make_group(const std::string& name, std::vector<int> ranks, GroupUse use = GroupUse::collectives);

  // data = combination of all ranks' data, in place.
  Handle all_reduce(const Group& group, Purpose purpose, Array data, Reduction reduction = Reduction::sum);
  // output = the inputs of positions 0, 1, …; `input` may be this rank's part of `output`.
  Handle all_gather(const Group& group, Purpose purpose, ConstArray input, Array output);
  // output = this position's part of the combined inputs; `output` may be this rank's part of `input`.
  Handle reduce_scatter(const Group& group, Purpose purpose, ConstArray input, Array output,
                        Reduction reduction = Reduction::sum);
  // Part i of `input` goes to position i; part i of `output` comes from there. Without counts the parts are equal.
  Handle all_to_all(const Group& group, Purpose purpose, ConstArray input, Array output);
  Handle all_to_all_v(const Group& group, Purpose purpose, ConstArray input, Array output,
                      const AllToAllCounts& counts);
  // data of all positions = data of position `root`.
  Handle broadcast(const Group& group, Purpose purpose, Array data, int root);
  Handle send(const Group& group, Purpose purpose, ConstArray data, int position);
  Handle receive(const Group& group, Purpose purpose, Array data, int position);
  // Runs `start`, which starts operations and waits for none of them. A backend may issue them as one, when `start` has
  // returned.
  void together(const std::function<void()>& start) { issue_together(start); }
  // Complete when all members have started it.
  Handle barrier(const Group& group, Purpose purpose = Purpose::control);

  // Ends all ranks: their operations, pending or started from now on, throw Error(code, message), with "rank N: "
  // before the message on the other ranks. The first failure wins. Any thread may call it. Print the reason before the
  // process ends: a launcher kills the other processes as soon as one has ended.
  virtual void abort(ExitCode code, const std::string& message) = 0;
  // The failure that ended the ranks, once this rank knows of it.
  virtual std::optional<Failure> failure() const = 0;

  // What this rank has sent, and its latest operations; any thread may read it.
  OperationLog& log() const { return *log_; }
  // For those that may outlive the communicator.
  const std::shared_ptr<OperationLog>& shared_log() const { return log_; }

 protected:
  // A backend's constructor must call set_world() before anything else is used.
  // `log` is that of another layer of the same rank, or a new one.
  Communicator(int rank, int size, std::shared_ptr<OperationLog> log = std::make_shared<OperationLog>())
      : rank_(rank), size_(size), log_(std::move(log)) {}
  void set_world(Group world) { world_ = std::move(world); }
  // Passes a request on to another backend; the request's group must be one of that backend.
  static std::shared_ptr<PendingOperation> start_on(Communicator& other, Request request);

 private:
  Handle begin(Request request);
  virtual std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position,
                                                   GroupUse use) = 0;
  virtual std::shared_ptr<PendingOperation> start(Request request) = 0;
  virtual void issue_together(const std::function<void()>& start) { start(); }

  int rank_;
  int size_;
  Group world_;
  std::shared_ptr<OperationLog> log_;
};

// A world of one rank: all groups have one member, so no operation has to wait for another rank.
std::shared_ptr<Communicator> make_solo_communicator();

}  // namespace llmtrain
