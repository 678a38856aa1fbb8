// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstddef>
#include <memory>
#include <string>
#include <utility>

#include "apps/llmtrain/serve/answer_text.h"
#include "apps/llmtrain/serve/connection.h"
#include "apps/llmtrain/serve/growing_answers.h"
#include "apps/llmtrain/serve/http.h"
#include "apps/llmtrain/serve/model/kept_model.h"
#include "apps/llmtrain/serve/serve_metrics.h"
#include "apps/llmtrain/serve/served_model.h"
#include "parallel/runtime/text_service.h"

namespace llmtrain::app {

struct HandlerSettings {
  std::size_t body_bytes = 0;
  std::string api_key;  // empty: none is asked for
};

// Answers the requests of clients, each in a thread of its own.
class RequestHandler {
 public:
  // All outlive this.
  RequestHandler(ServedModel& model, const KeptModel& kept, HandlerSettings settings)
      : model_(model), kept_(kept), settings_(std::move(settings)) {}

  // Reads one request and answers it. Never throws.
  void serve(Connection& connection) noexcept;
  // Answers that there are too many clients.
  static void refuse(Connection& connection) noexcept;

  // From now on new requests are refused with 503, while those that have begun end as they would.
  void drain() { is_draining_ = true; }
  bool is_draining() const { return is_draining_; }

 private:
  void answer(Connection& connection, const HttpRequest& request);
  void require_key(const HttpRequest& request) const;
  // The JSON or text of what is asked for with GET.
  std::string page(const HttpRequest& request, std::string& content_type) const;
  std::string tokenized(const std::string& body);
  void answer_texts(Connection& connection, const HttpRequest& http, ApiKind kind);
  void answer_embeddings(Connection& connection, const HttpRequest& http);
  // Takes all pieces of the answers, and sends them where they are streamed. Throws ConnectionLost.
  void follow(Connection& connection, const TextService& service, GrowingAnswers& answers, AnswerText& text,
              EventStream* stream);
  void send(Connection& connection, const HttpRequest& request, int status, const std::string& content_type,
            const std::string& body, const std::string& headers = {});

  ServedModel& model_;
  const KeptModel& kept_;
  HandlerSettings settings_;
  ServeMetrics metrics_;
  std::atomic<bool> is_draining_{false};
};

}  // namespace llmtrain::app
