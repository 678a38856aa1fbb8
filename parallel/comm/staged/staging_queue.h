// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <exception>
#include <functional>
#include <list>
#include <memory>
#include <mutex>
#include <thread>

#include "parallel/comm/communicator.h"
#include "parallel/comm/staged/staging_device.h"

namespace llmtrain {

class StagingQueue;

// One operation of this rank. For device memory the host's operation uses buffers in its place.
class StagedOperation : public PendingOperation {
 public:
  // `request` must have the host's group.
  StagedOperation(std::shared_ptr<StagingQueue> queue, Request request, std::shared_ptr<OperationLog> log);

  bool done() override;
  void wait() override;
  void withdraw() noexcept override;

 private:
  friend class StagingQueue;

  std::shared_ptr<StagingQueue> queue_;
  Request request_;
  void* output_ = nullptr;  // in the original memory, on the device
  std::int64_t output_bytes_ = 0;
  std::shared_ptr<std::byte> host_input_, host_output_;
  StagingDevice::MarkPointer begin_, copied_out_, copied_in_;
  // Under the queue's mutex.
  Handle host_;
  bool has_started_ = false;  // on the host
  bool is_finished_ = false;
  bool is_withdrawn_ = false;
  std::exception_ptr error_;
};

// Executes a rank's operations through the host on a separate thread, which alone starts operations there, in the order
// of add().
class StagingQueue {
 public:
  using StartOnHost = std::function<Handle(const Request&)>;
  StagingQueue(std::shared_ptr<Communicator> host, std::unique_ptr<StagingDevice> device, StartOnHost start_on_host);
  ~StagingQueue();
  StagingQueue(const StagingQueue&) = delete;
  StagingQueue& operator=(const StagingQueue&) = delete;

  void add(const std::shared_ptr<StagedOperation>& operation);
  bool is_finished(const StagedOperation& operation);
  void wait(const StagedOperation& operation);
  void withdraw(StagedOperation& operation) noexcept;
  // Ends the thread; no operation may be added afterwards.
  void stop() noexcept;

 private:
  std::shared_ptr<std::byte> host_memory(std::int64_t bytes);
  void copy_out(StagedOperation& operation);
  // All are called under the mutex or after the thread has ended.
  bool advance();
  bool advance(StagedOperation& operation);
  static bool is_copying(const StagedOperation& operation) noexcept;
  static void await_copies(const StagedOperation& operation) noexcept;

  void look_after();
  void let_go() noexcept;

  std::shared_ptr<Communicator> host_;
  std::unique_ptr<StagingDevice> device_;
  StartOnHost start_on_host_;

  std::mutex mutex_;
  std::condition_variable added_, finished_;
  std::list<std::shared_ptr<StagedOperation>> open_;  // kept until no copy uses their buffers any more
  int waiting_ = 0;                                   // threads in wait()
  bool has_stopped_ = false;
  std::thread thread_;
};

}  // namespace llmtrain
