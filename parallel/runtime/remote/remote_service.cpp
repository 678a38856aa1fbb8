// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/remote/remote_service.h"

#include <chrono>
#include <type_traits>
#include <utility>
#include <variant>

#include "core/base/error.h"

namespace llmtrain::remote {
namespace {

constexpr std::chrono::seconds longest_load_answer{1};

}  // namespace

std::optional<Failed> RemoteService::hear(const std::function<void()>& is_ready) {
  std::optional<Failed> failed;
  while (const std::optional<std::string> message = channel_->receive()) {
    Report report = decoded_report(*message);
    if (Failed* last = std::get_if<Failed>(&report)) {
      failed = std::move(*last);
      fail(failed->message);
    } else if (const Ready* ready = std::get_if<Ready>(&report)) {
      {
        const std::lock_guard lock(mutex_);
        ready_ = *ready;
      }
      is_ready();
    } else {
      std::visit(
          [&](auto& one) {
            if constexpr (requires { take(std::move(one)); }) take(std::move(one));
          },
          report);
    }
  }
  return failed;
}

void RemoteService::fail(const std::string& reason) {
  const std::lock_guard lock(mutex_);
  failure_ = reason;
  texts_.clear();
  requests_.clear();
  has_answer_.notify_all();
}

std::int64_t RemoteService::longest() const {
  const std::lock_guard lock(mutex_);
  return ready_.longest;
}

std::int64_t RemoteService::longest_embedded() const {
  const std::lock_guard lock(mutex_);
  return ready_.longest_embedded;
}

std::vector<std::int64_t> RemoteService::add(const std::vector<ServedText>& texts,
                                             const std::vector<ServedListener>& listeners) {
  AddTexts order{.call = 0, .first = 0, .texts = texts};
  std::vector<std::int64_t> numbers;
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return {};
    order.call = next_call_++;
    order.first = next_text_;
    calls_.try_emplace(order.call);
    // Known before they are added: tokens may come before the answer does.
    for (std::size_t i = 0; i < texts.size(); ++i) {
      numbers.push_back(next_text_++);
      texts_.emplace(numbers.back(), Text{listeners[i], texts[i].tokens});
    }
  }
  const std::int64_t call = order.call;
  const bool are_taken = ask(call, encoded(Order(std::move(order))), [&] {
    for (const std::int64_t number : numbers) texts_.erase(number);
  });
  return are_taken ? numbers : std::vector<std::int64_t>();
}

bool RemoteService::ask(std::int64_t call, const std::string& message, const std::function<void()>& forget) {
  const Taken answer = answer_to(call, message);
  if (answer.is_taken) return true;
  {
    const std::lock_guard lock(mutex_);
    forget();
  }
  if (answer.refusal) throw Error(static_cast<ExitCode>(answer.refusal->code), answer.refusal->message);
  return false;
}

Taken RemoteService::answer_to(std::int64_t call, const std::string& message) {
  std::unique_lock lock(mutex_);
  try {
    channel_->send(message);
  } catch (const Error& error) {
    calls_.erase(call);
    return refused(call, error);
  }
  has_answer_.wait(lock, [&] { return calls_[call] || failure_; });
  const auto found = calls_.extract(call);
  return found.mapped().value_or(Taken{});
}

void RemoteService::cancel(std::int64_t text) {
  const std::lock_guard lock(mutex_);
  if (texts_.erase(text) > 0) channel_->send(encoded(Order(CancelText{text})));
}

bool RemoteService::embed(std::vector<std::vector<std::int64_t>> texts, EmbeddingListener listener) {
  EmbedTexts order{.call = 0, .request = 0, .texts = std::move(texts)};
  {
    const std::lock_guard lock(mutex_);
    if (failure_) return false;
    order.call = next_call_++;
    order.request = next_request_++;
    calls_.try_emplace(order.call);
    requests_.emplace(order.request, Request{std::move(listener), order.texts.size()});
  }
  const std::int64_t call = order.call, request = order.request;
  return ask(call, encoded(Order(std::move(order))), [&] { requests_.erase(request); });
}

TextService::Load RemoteService::load() const {
  std::unique_lock lock(mutex_);
  if (failure_) return {};
  const std::int64_t call = next_call_++;
  channel_->send(encoded(Order(AskLoad{call})));
  has_answer_.wait_for(lock, longest_load_answer, [&] { return load_.call >= call || failure_; });
  return failure_ ? Load{} : load_.load;
}

std::optional<std::string> RemoteService::failure() const {
  const std::lock_guard lock(mutex_);
  return failure_;
}

void RemoteService::take(const Taken& report) {
  const std::lock_guard lock(mutex_);
  const auto call = calls_.find(report.call);
  if (call == calls_.end()) return;
  call->second = report;
  has_answer_.notify_all();
}

// Under the lock, which add() and cancel() wait for: a client that has heard the end of a text cannot ask for another
// before this one's place is free.
void RemoteService::take(const Grown& report) {
  const std::lock_guard lock(mutex_);
  const auto text = texts_.find(report.text);
  if (text == texts_.end()) return;
  const bool is_last = --text->second.left == 0;
  const bool goes_on = text->second.listener(report.token);
  if (is_last || !goes_on) texts_.erase(text);
  if (!is_last && !goes_on) channel_->send(encoded(Order(CancelText{report.text})));
}

void RemoteService::take(Embedded report) {
  const std::lock_guard lock(mutex_);
  const auto request = requests_.find(report.request);
  if (request == requests_.end()) return;
  const bool is_last = --request->second.left == 0;
  const bool goes_on = request->second.listener(std::move(report.embedding));
  if (is_last || !goes_on) requests_.erase(request);
  if (!is_last && !goes_on) channel_->send(encoded(Order(CancelEmbedding{report.request})));
}

void RemoteService::take(const LoadFound& report) {
  const std::lock_guard lock(mutex_);
  if (report.call > load_.call) load_ = report;
  has_answer_.notify_all();
}

}  // namespace llmtrain::remote
