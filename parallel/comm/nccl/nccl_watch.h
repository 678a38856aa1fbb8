// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <condition_variable>
#include <list>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "parallel/comm/backend.h"
#include "parallel/comm/nccl/nccl_link.h"

namespace llmtrain {

// An operation on the device, delimited by two events. Those that are issued together have one beginning.
struct NcclWork {
  explicit NcclWork(double watchdog_seconds) : deadline(watchdog_seconds) {}

  OperationLog::Entry entry;
  OperationSummary operation;
  std::shared_ptr<CudaEvent> begin;
  CudaEvent end;
  std::atomic<bool> is_issued{false};  // `end` was recorded
  Deadline deadline;
};

// Monitors a rank's operations on a separate thread: logs their times, detects those that hang, and aborts them once a
// rank has failed. Should NCCL not come back from that, the destructor ends the process with the failure's exit code.
class NcclWatch {
 public:
  // `device` is CUDA's index.
  NcclWatch(std::shared_ptr<Communicator> host, std::shared_ptr<OperationLog> log, double watchdog_seconds, int device);
  ~NcclWatch();
  NcclWatch(const NcclWatch&) = delete;  // its thread refers to it
  NcclWatch& operator=(const NcclWatch&) = delete;

  void add(std::shared_ptr<NcclWork> work);
  // Monitors the link for errors, and aborts it when a rank fails.
  void add(const std::shared_ptr<NcclLink>& link);

 private:
  void look_after(int device);
  // Called under the mutex.
  void note_ends();
  void check_links();

  std::shared_ptr<Communicator> host_;
  std::shared_ptr<OperationLog> log_;
  double watchdog_seconds_;

  std::mutex mutex_;
  std::condition_variable changed_;
  bool has_stopped_ = false;
  bool has_failed_ = false;  // and links are being aborted
  bool has_ended_ = false;   // the thread
  std::list<std::shared_ptr<NcclWork>> open_;
  std::vector<std::weak_ptr<NcclLink>> links_;
  std::thread thread_;
};

}  // namespace llmtrain
