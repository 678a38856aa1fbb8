// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/comm/backend.h"
#include "parallel/comm/mpi/control_channel.h"
#include "parallel/comm/mpi/mpi_steps.h"
#include "parallel/comm/mpi/mpi_world.h"

namespace llmtrain {

class MpiOperation;

// Advances all operations of this process: a waiting thread does it, otherwise the engine's own thread. MPI makes
// progress only inside its calls, so somebody has to poll.
class MpiEngine {
 public:
  MpiEngine(int rank, int size, const MpiOptions& options, std::shared_ptr<OperationLog> log);
  ~MpiEngine();
  MpiEngine(const MpiEngine&) = delete;
  MpiEngine& operator=(const MpiEngine&) = delete;

  // Runs `work` while no other thread calls MPI (MPI_THREAD_SERIALIZED).
  template <class Work>
  void in_mpi(Work work) {
    const std::lock_guard lock(mutex_);
    work();
  }

  // `make_steps` is called under the mutex.
  using MakeSteps = std::function<std::unique_ptr<MpiSteps>()>;
  void start(const std::shared_ptr<MpiOperation>& operation, const MakeSteps& make_steps);
  void wait(MpiOperation& operation);
  bool is_done(MpiOperation& operation);
  // MPI cannot cancel a send, and every call advances all messages. So once the memory of a message is released,
  // nothing calls MPI any more except to report the failure. The process must end.
  void withdraw(MpiOperation& operation) noexcept;
  bool is_frozen() const { return is_frozen_.load(); }
  double watchdog_seconds() const { return options_.watchdog_seconds; }

  const FailureNote& failure() const { return failure_; }
  void fail(const Failure& failure);
  void raise_if_failed() const;
  // Ends the thread; no operation may be started or waited for afterwards.
  void stop() noexcept;

 private:
  // Both are called under the mutex.
  void progress();
  bool advance(MpiOperation& operation);

  void look_after();
  [[noreturn]] void time_out(MpiOperation& operation);
  // Handles control messages until `is_done`, called under the mutex, returns true, or it takes too long.
  void await_control(const std::function<bool()>& is_done);
  std::string describe_ranks(const std::vector<int>& ranks);

  int rank_;
  MpiOptions options_;
  std::shared_ptr<OperationLog> log_;
  FailureNote failure_;

  std::mutex mutex_;
  ControlChannel control_;
  std::list<std::shared_ptr<MpiOperation>> open_;
  std::uint64_t changes_ = 0;  // operations started and finished

  std::atomic<int> waiting_{0};  // threads in wait()
  std::condition_variable changed_;
  bool has_stopped_ = false;
  std::atomic<bool> is_frozen_{false};
  std::thread helper_;
};

// One operation of this rank.
class MpiOperation : public PendingOperation {
 public:
  MpiOperation(std::shared_ptr<MpiEngine> engine, Request request, std::shared_ptr<OperationLog> log,
               const OperationLog::Entry& entry)
      : PendingOperation(std::move(log), entry),
        engine_(std::move(engine)),
        request_(std::move(request)),
        deadline_(engine_->watchdog_seconds()) {}

  bool done() override { return engine_->is_done(*this); }
  void wait() override { engine_->wait(*this); }
  void withdraw() noexcept override { engine_->withdraw(*this); }

 private:
  friend class MpiEngine;

  std::shared_ptr<MpiEngine> engine_;
  Request request_;
  std::unique_ptr<MpiSteps> steps_;  // under the engine's mutex; empty when done
  std::atomic<bool> is_done_{false};
  Deadline deadline_;
};

}  // namespace llmtrain
