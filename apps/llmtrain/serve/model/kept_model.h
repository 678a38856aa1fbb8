// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>

#include "apps/llmtrain/serve/model/model_process.h"
#include "core/base/error.h"
#include "parallel/runtime/remote/messages.h"
#include "parallel/runtime/remote/remote_service.h"
#include "parallel/runtime/text_service.h"

namespace llmtrain::app {

// A model that is loaded in a process of its own, and loaded again in another one when that ends while it should not:
// so often in a row, without having served for a minute in between.
class KeptModel {
 public:
  // Starts the first process. `is_asked_to_stop` is called from another thread, and outlives this.
  KeptModel(remote::LoadModel request, std::int64_t restarts, std::function<bool()> is_asked_to_stop);
  // Ends it.
  ~KeptModel();
  KeptModel(const KeptModel&) = delete;
  KeptModel& operator=(const KeptModel&) = delete;

  // Waits until the model can be asked; false where a request to stop comes first. Throws the Error that ends it
  // before.
  bool wait_until_ready();
  // That of the newest process, which has failed while the model is loaded again. Once wait_until_ready() has returned
  // true.
  std::shared_ptr<TextService> service() const;
  // How often it was started again.
  std::int64_t restarts() const;
  // Whether it has ended for good.
  bool is_over() const;
  // Ends the process, which gets some time for it where it is not loading, and returns when it has ended. Throws the
  // Error with which the model has ended before, for good.
  void stop();

 private:
  // One process, from its start to its end. Whether there is to be another one.
  bool live();
  ProcessEnd hear(ModelProcess& process, const std::shared_ptr<remote::RemoteService>& service);
  void note_ready(const std::shared_ptr<remote::RemoteService>& service);
  bool note_end(const ProcessEnd& end, const std::shared_ptr<remote::RemoteService>& service);

  using Clock = std::chrono::steady_clock;

  const remote::LoadModel request_;
  const std::int64_t most_restarts_;
  const std::function<bool()> is_asked_to_stop_;
  mutable std::mutex mutex_;
  std::condition_variable has_changed_;
  std::shared_ptr<remote::RemoteService> newest_;  // of the newest process
  std::shared_ptr<remote::RemoteService> shown_;   // the newest that has been ready, or has failed since one was
  std::int64_t restarts_ = 0, in_a_row_ = 0;
  Clock::time_point started_{}, ready_since_{};
  bool is_ready_ = false;  // the newest process is
  bool is_stopping_ = false, is_over_ = false;
  std::optional<Error> error_;
  std::thread keeper_;  // last: it uses the others; it lives as long as the processes that it starts
};

}  // namespace llmtrain::app
