// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/model/kept_model.h"

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <utility>

#include "core/base/log.h"
#include "parallel/runtime/remote/message_channel.h"

namespace llmtrain::app {
namespace {

// Between which ends of a process are in a row.
constexpr std::chrono::minutes steady_time{1};
constexpr std::chrono::milliseconds stop_interval{100};
// Until a process whose socket has ended is killed: it frees memory, and ranks and files.
constexpr std::chrono::seconds end_patience{10};

}  // namespace

KeptModel::KeptModel(remote::LoadModel request, std::int64_t restarts, std::function<bool()> is_asked_to_stop)
    : request_(std::move(request)),
      most_restarts_(restarts),
      is_asked_to_stop_(std::move(is_asked_to_stop)),
      keeper_([this] {
        while (live()) continue;
      }) {}

KeptModel::~KeptModel() {
  try {
    stop();
  } catch (const Error&) {
    // Whoever wants to know it has called stop().
  }
}

bool KeptModel::wait_until_ready() {
  std::unique_lock lock(mutex_);
  while (!is_ready_ && !is_over_) {
    if (is_asked_to_stop_()) return false;
    has_changed_.wait_for(lock, stop_interval);
  }
  if (error_) throw Error(*error_);
  return is_ready_;
}

std::shared_ptr<TextService> KeptModel::service() const {
  const std::lock_guard lock(mutex_);
  return shown_;
}

std::int64_t KeptModel::restarts() const {
  const std::lock_guard lock(mutex_);
  return restarts_;
}

bool KeptModel::is_over() const {
  const std::lock_guard lock(mutex_);
  return is_over_;
}

void KeptModel::stop() {
  {
    const std::lock_guard lock(mutex_);
    is_stopping_ = true;
    if (newest_) newest_->close();
  }
  if (keeper_.joinable()) keeper_.join();
  if (const auto error = std::exchange(error_, std::nullopt)) throw Error(*error);
}

bool KeptModel::live() {
  std::shared_ptr<remote::RemoteService> service;
  ProcessEnd end;
  try {
    ModelProcess process;
    auto channel = std::make_unique<remote::MessageChannel>(process.take_socket());
    channel->send(remote::encoded(remote::Order(request_)));
    service = std::make_shared<remote::RemoteService>(std::move(channel));
    {
      const std::lock_guard lock(mutex_);
      if (is_stopping_) return false;
      newest_ = service;
      started_ = Clock::now();
    }
    end = hear(process, service);
  } catch (const Error& error) {
    end = {static_cast<int>(error.code()), error.what()};  // it could not be started
  }
  return note_end(end, service);
}

ProcessEnd KeptModel::hear(ModelProcess& process, const std::shared_ptr<remote::RemoteService>& service) {
  std::optional<remote::Failed> said;
  std::string broken;
  try {
    said = service->hear([&] { note_ready(service); });
  } catch (const Error& error) {
    broken = error.what();
  }
  service->close();
  std::unique_lock lock(mutex_);
  const bool may_take_time = (is_ready_ && broken.empty()) || said;
  lock.unlock();
  ProcessEnd end = process.wait(may_take_time ? end_patience : std::chrono::seconds(0));
  if (said && said->code != 0) end.code = static_cast<int>(said->code);
  end.why = said             ? said->message
            : broken.empty() ? "the model's process " + end.why
                             : "the model's process was ended: " + broken;
  return end;
}

void KeptModel::note_ready(const std::shared_ptr<remote::RemoteService>& service) {
  const std::lock_guard lock(mutex_);
  ready_since_ = Clock::now();
  is_ready_ = true;
  shown_ = service;
  has_changed_.notify_all();
  if (restarts_ > 0)
    log().info("the model has been loaded again, in {:.1f} s",
               std::chrono::duration<double>(ready_since_ - started_).count());
}

bool KeptModel::note_end(const ProcessEnd& end, const std::shared_ptr<remote::RemoteService>& service) {
  const std::lock_guard lock(mutex_);
  if (is_ready_ && Clock::now() - ready_since_ >= steady_time) in_a_row_ = 0;
  is_ready_ = false;
  newest_ = nullptr;
  // What has never been loaded has a mistake that a second time has, too.
  const bool was_served = shown_ != nullptr;
  const bool goes_on = was_served && !is_stopping_ && !is_asked_to_stop_() && in_a_row_ < most_restarts_;
  if (service) service->fail(goes_on ? end.why + "; the model is being loaded again" : end.why);
  if (service && was_served) shown_ = service;
  has_changed_.notify_all();
  if (goes_on) {
    ++restarts_;
    ++in_a_row_;
    log().warn("{}; the model is being loaded again ({} of {} times in a row)", end.why, in_a_row_, most_restarts_);
    return true;
  }
  is_over_ = true;
  if (!is_stopping_) error_.emplace(static_cast<ExitCode>(end.code), end.why);
  return false;
}

}  // namespace llmtrain::app
