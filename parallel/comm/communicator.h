// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/base/collective.h"
#include "parallel/comm/array.h"
#include "parallel/comm/failure.h"
#include "parallel/comm/group.h"
#include "parallel/comm/operation.h"

namespace llmtrain {

// How many elements go to, and come from, each position of a group.
struct AllToAllCounts {
  std::span<const std::int64_t> input;
  std::span<const std::int64_t> output;
};

// How one rank talks to the others. Backends: local (ranks as threads), mpi, and over one of these staged and nccl.
//
// Operations start at once and go on while the rank computes; the Handle tells when they are done. The memory given to
// one belongs to it until then. Input and output overlap only where an operation says so. All members of a group start
// the same collectives on it in the same order; messages between two positions of a group arrive in the order they were
// sent. A send may not be done before its receive has started. One thread at a time starts operations of a rank; any
// thread may wait.
//
// Memory of a GPU goes to the backends for that alone (staged, nccl), which take the host's as well. There an operation
// starts after all that the rank's computing stream holds when it is called, and wait() orders what is put on that
// stream afterwards behind it: the memory may be let go after wait() where the stream's own order reuses it.
//
// Sums are exact in their order: value of position 0 + value of position 1 + …, in fp32 for the 16-bit and 8-bit
// floating types, rounded to them once at the end (to nearest, ties to even; what fp8_e4m3 cannot hold becomes NaN, as
// in PyTorch's casts). So every rank gets the same bits, in every run, by every algorithm. (NCCL adds in its own order:
// there the same layout repeats its bits.)
//
// Trouble: an operation that a rank has waited for longer than the watchdog's time throws Error(rank_lost) which names
// the operation and the ranks that are missing; from then on, as after abort(), every operation of every rank throws
// the same. Misuse (types that differ, counts that do not fit) throws Error(internal_error).
class Communicator {
 public:
  virtual ~Communicator();
  Communicator(const Communicator&) = delete;
  Communicator& operator=(const Communicator&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  // All ranks, by rank.
  const Group& world() const { return world_; }
  // A group of `ranks` in the given order, of which this rank is one. May block until all members have called it, with
  // the same ranks and use; members make the groups that they share in the same order. `name` is for messages. A group
  // of one rank is a group like others; its collectives are done at once.
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
  // data of the others = data of position `root`.
  Handle broadcast(const Group& group, Purpose purpose, Array data, int root);
  Handle send(const Group& group, Purpose purpose, ConstArray data, int position);
  Handle receive(const Group& group, Purpose purpose, Array data, int position);
  // Done when all members have started it.
  Handle barrier(const Group& group, Purpose purpose = Purpose::control);

  // Takes all ranks down: their operations, waited for or started from now on, throw Error(code, message), with
  // "rank N: " before the message on the others. The first failure of all wins. Any thread may call it. Say why before:
  // a launcher ends the other processes as soon as one has ended.
  virtual void abort(ExitCode code, const std::string& message) = 0;
  // What took the ranks down, once this rank knows.
  virtual std::optional<Failure> failure() const = 0;

  // What this rank has sent, and its last operations; any thread may read them.
  OperationLog& log() const { return *log_; }

 protected:
  // A backend's constructor sets the world before anything else is called.
  Communicator(int rank, int size);
  // Of the same rank as `other`: both count and remember in one log.
  struct SameRank {
    const Communicator& other;
  };
  explicit Communicator(const SameRank& same);
  void set_world(Group world) { world_ = std::move(world); }
  const std::shared_ptr<OperationLog>& shared_log() const { return log_; }
  // What a backend hands on to another one; the request's group is one of that one's.
  static std::shared_ptr<PendingOperation> start_on(Communicator& other, Request request);

 private:
  Handle begin(Request request);
  virtual std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position,
                                                   GroupUse use) = 0;
  virtual std::shared_ptr<PendingOperation> start(Request request) = 0;

  int rank_;
  int size_;
  Group world_;
  std::shared_ptr<OperationLog> log_;
};

// The words of a watchdog's error.
struct Timeout {
  int rank = 0;
  double seconds = 0;
  std::string operation;  // Request::description()
  std::string missing;    // "rank 3 (last operation: …)"
};
std::string timeout_message(const Timeout& timeout);

}  // namespace llmtrain
