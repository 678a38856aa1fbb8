// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>

#include "parallel/runtime/remote/message_channel.h"
#include "parallel/runtime/remote/messages.h"
#include "parallel/runtime/text_service.h"

namespace llmtrain::remote {

// The end of a MessageChannel at which the model is: does with a service what RemoteService asks for at the other.
//
// A text goes on until the other end cancels it, which decides what ends an answer: by then the model may have made a
// token or two more, which that drops.
class ServiceHost {
 public:
  // The channel outlives this.
  explicit ServiceHost(MessageChannel& channel) : channel_(channel) {}

  // Until the other end closes the channel, or the service has failed, which that is told. The service may call its
  // listeners as long as this exists, also when this has returned. Throws Error(internal_error) for what is no message.
  void serve(TextService& service);

 private:
  void take(TextService& service, const LoadModel& order);
  void take(TextService& service, const AddTexts& order);
  void take(TextService& service, const CancelText& order);
  void take(TextService& service, const EmbedTexts& order);
  void take(TextService& service, const CancelEmbedding& order);
  void take(TextService& service, const AskLoad& order);
  void say(const TextService& service, const Taken& answer);
  ServedListener listener_of(std::int64_t text, std::int64_t tokens);
  EmbeddingListener listener_of_embeddings(std::int64_t request, std::size_t texts);

  MessageChannel& channel_;
  std::mutex mutex_;
  // The service's numbers of texts that have not ended, by the other end's; none while a text is being added.
  std::map<std::int64_t, std::optional<std::int64_t>> numbers_;
  std::set<std::int64_t> embeddings_;  // requests that are not done
};

}  // namespace llmtrain::remote
