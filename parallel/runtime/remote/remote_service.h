// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "parallel/runtime/remote/message_channel.h"
#include "parallel/runtime/remote/messages.h"
#include "parallel/runtime/text_service.h"

namespace llmtrain::remote {

// The service of a model that is loaded in another process, at the other end of a MessageChannel, where a ServiceHost
// is. When that process has ended this one has failed for good; another process gets another RemoteService.
//
// A listener that returns false ends its text at once; tokens that were made meanwhile are dropped. When it returns, a
// text that is added afterwards has the place of the one that has ended.
class RemoteService final : public TextService {
 public:
  // Channel: what must be sent before, as LoadModel, has been.
  explicit RemoteService(std::unique_ptr<MessageChannel> channel) : channel_(std::move(channel)) {}

  // Hears the other end until it closes the channel, and calls `is_ready` when the model has been loaded. Returns what
  // it said last of its failure; nothing where it said nothing, as it was killed or close() was called: what is asked
  // for then waits for fail(). Throws Error(internal_error) for what is no message.
  std::optional<Failed> hear(const std::function<void()>& is_ready);
  // Why there will be no more: ends what waits. To be called when hear() has ended; the last reason counts.
  void fail(const std::string& reason);
  // Lets the other end know that nothing more will be asked for. From any thread.
  void close() { channel_->close(); }

  std::int64_t longest() const override;
  std::int64_t longest_embedded() const override;
  std::vector<std::int64_t> add(const std::vector<ServedText>& texts,
                                const std::vector<ServedListener>& listeners) override;
  void cancel(std::int64_t text) override;
  bool embed(std::vector<std::vector<std::int64_t>> texts, EmbeddingListener listener) override;
  // What the other end says within a second; else what it said last. Nothing of a model that has ended.
  Load load() const override;
  std::optional<std::string> failure() const override;

 private:
  struct Text {
    ServedListener listener;
    std::int64_t left = 0;  // tokens that may come
  };
  struct Request {
    EmbeddingListener listener;
    std::size_t left = 0;  // texts
  };

  void take(const Taken& report);
  void take(const Grown& report);
  void take(Embedded report);
  void take(const LoadFound& report);
  // Whether what is asked for was taken; false, too, where the service fails meanwhile. Throws the Error that refuses
  // it. What was not taken is to be forgotten, under the lock.
  bool ask(std::int64_t call, const std::string& message, const std::function<void()>& forget);
  Taken answer_to(std::int64_t call, const std::string& message);

  std::unique_ptr<MessageChannel> channel_;
  mutable std::mutex mutex_;
  mutable std::condition_variable has_answer_;
  Ready ready_;
  std::map<std::int64_t, Text> texts_;
  std::map<std::int64_t, Request> requests_;
  std::map<std::int64_t, std::optional<Taken>> calls_;  // that wait for their answers
  mutable std::int64_t next_call_ = 0;
  std::int64_t next_text_ = 0, next_request_ = 0;
  LoadFound load_{.call = -1, .load = {}};  // the newest
  std::optional<std::string> failure_;
};

}  // namespace llmtrain::remote
