// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/remote/service_host.h"

#include <chrono>
#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/base/error.h"

namespace llmtrain::remote {
namespace {

constexpr std::chrono::milliseconds poll_interval{50};

}  // namespace

void ServiceHost::serve(TextService& service) {
  channel_.send(encoded(Report(Ready{service.longest(), service.longest_embedded()})));
  while (true) {
    if (const auto failure = service.failure()) return channel_.send(encoded(Report(Failed{0, *failure})));
    if (!channel_.wait(poll_interval)) continue;
    const std::optional<std::string> message = channel_.receive();
    if (!message) return;
    std::visit([&](const auto& order) { take(service, order); }, decoded_order(*message));
  }
}

void ServiceHost::take(TextService&, const LoadModel&) {
  throw Error(ExitCode::internal_error, "the model's process is to load a second model");
}

void ServiceHost::take(TextService& service, const AddTexts& order) {
  std::vector<ServedListener> listeners;
  {
    const std::lock_guard lock(mutex_);
    for (const ServedText& text : order.texts) {
      const std::int64_t number = order.first + std::ssize(listeners);
      numbers_.try_emplace(number);
      listeners.push_back(listener_of(number, text.tokens));
    }
  }
  Taken answer{.call = order.call, .is_taken = false, .refusal = {}};
  std::vector<std::int64_t> numbers;
  try {
    numbers = service.add(order.texts, listeners);
    answer.is_taken = !numbers.empty();
  } catch (const Error& error) {
    answer = refused(order.call, error);
  }
  {
    const std::lock_guard lock(mutex_);
    for (std::size_t i = 0; i < listeners.size(); ++i) {
      const auto text = numbers_.find(order.first + static_cast<std::int64_t>(i));
      if (text == numbers_.end()) continue;  // it has ended already
      if (answer.is_taken)
        text->second = numbers.at(i);
      else
        numbers_.erase(text);
    }
  }
  say(service, answer);
}

// A service that has failed takes nothing, which is no lack of room: the failure that comes next is the answer.
void ServiceHost::say(const TextService& service, const Taken& answer) {
  const bool has_failed = !answer.is_taken && !answer.refusal && service.failure();
  if (!has_failed) channel_.send(encoded(Report(answer)));
}

ServedListener ServiceHost::listener_of(std::int64_t text, std::int64_t tokens) {
  return [this, text, left = tokens](const ServedToken& token) mutable {
    if (--left == 0) {
      const std::lock_guard lock(mutex_);
      numbers_.erase(text);
    }
    channel_.send_in_turn(encoded(Report(Grown{text, token})));
    return true;
  };
}

// One that has ended meanwhile is known here no more.
void ServiceHost::take(TextService& service, const CancelText& order) {
  std::unique_lock lock(mutex_);
  const auto found = numbers_.find(order.text);
  if (found == numbers_.end()) return;
  const std::int64_t number = found->second.value();
  numbers_.erase(found);
  lock.unlock();
  service.cancel(number);
}

void ServiceHost::take(TextService& service, const EmbedTexts& order) {
  {
    const std::lock_guard lock(mutex_);
    embeddings_.insert(order.request);
  }
  Taken answer{.call = order.call, .is_taken = false, .refusal = {}};
  try {
    answer.is_taken = service.embed(order.texts, listener_of_embeddings(order.request, order.texts.size()));
  } catch (const Error& error) {
    answer = refused(order.call, error);
  }
  if (!answer.is_taken) {
    const std::lock_guard lock(mutex_);
    embeddings_.erase(order.request);
  }
  say(service, answer);
}

EmbeddingListener ServiceHost::listener_of_embeddings(std::int64_t request, std::size_t texts) {
  return [this, request, left = texts](std::vector<float> embedding) mutable {
    {
      const std::lock_guard lock(mutex_);
      if (!embeddings_.contains(request)) return false;
      if (--left == 0) embeddings_.erase(request);
    }
    channel_.send_in_turn(encoded(Report(Embedded{request, std::move(embedding)})));
    return true;
  };
}

void ServiceHost::take(TextService&, const CancelEmbedding& order) {
  const std::lock_guard lock(mutex_);
  embeddings_.erase(order.request);
}

void ServiceHost::take(TextService& service, const AskLoad& order) {
  channel_.send(encoded(Report(LoadFound{order.call, service.load()})));
}

}  // namespace llmtrain::remote
