// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "parallel/comm/local/local_shared.h"
#include "parallel/comm/operation.h"

namespace llmtrain {

// A part of an operation that one thread executes without synchronisation: no two pieces of an operation write the same
// bytes, and none reads what another one writes.
struct Piece {
  int from = -1;                  // position whose input is read; -1: all
  int to = -1;                    // position whose output is written; -1: all
  std::int64_t input_begin = 0;   // elements
  std::int64_t output_begin = 0;  // elements
  std::int64_t count = 0;         // elements
};

// One operation of several ranks: each joins with its request, and whoever waits then executes pieces of it. In a
// message the sender is member 0 and the receiver member 1.
class LocalExchange {
 public:
  // `ranks`: world ranks, by member.
  LocalExchange(LocalShared& shared, std::vector<int> ranks);

  // Returns whether all have joined. The last one to join makes the pieces available, and executes a small operation
  // immediately. If the requests do not match, ends all ranks and throws Error(internal_error).
  bool join(int member, const Request& request, const std::shared_ptr<OperationLog>& log,
            const OperationLog::Entry& entry);

  // Executes pieces until none is left.
  void help();
  bool has_work() const;
  // Whether all pieces are done. With an emulated network the result counts as delivered at finish_time().
  bool is_done() const { return done_.load(std::memory_order_acquire); }
  Clock::time_point finish_time(int member) const { return finish_[static_cast<std::size_t>(member)]; }

  // When this returns, no thread accesses any member's memory any more. May block for the duration of a piece.
  void withdraw() noexcept;

  // The ranks that have not joined.
  std::vector<int> missing() const;

 private:
  void prepare();
  void plan_finish(Clock::time_point now);
  void complete();

  LocalShared& shared_;
  const std::vector<int> ranks_;

  struct Member {
    bool has_joined = false;
    std::shared_ptr<OperationLog> log;
    OperationLog::Entry entry;
  };
  mutable std::mutex mutex_;
  std::size_t joined_ = 0;
  std::vector<Member> members_;
  std::vector<Request> requests_;
  std::vector<Piece> pieces_;
  std::vector<Clock::time_point> finish_;

  std::atomic<bool> ready_{false};
  std::atomic<bool> withdrawn_{false};
  std::atomic<bool> done_{false};
  std::atomic<int> helpers_{0};
  std::atomic<std::size_t> taken_{0};
  std::atomic<std::size_t> finished_{0};
};

}  // namespace llmtrain
