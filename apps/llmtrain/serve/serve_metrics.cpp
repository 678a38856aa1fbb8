// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/serve_metrics.h"

#include <spdlog/fmt/fmt.h>

#include <string_view>

namespace llmtrain::app {
namespace {

template <class Number>
std::string one(std::string_view name, std::string_view kind, std::string_view help, Number value) {
  return fmt::format("# HELP {0} {1}\n# TYPE {0} {2}\n{0} {3}\n", name, help, kind, value);
}

}  // namespace

void ServeMetrics::add_request(const std::string& path, int status) {
  const std::lock_guard lock(mutex_);
  ++requests_[{path, status}];
}

void ServeMetrics::add_tokens(std::int64_t prompt, std::int64_t generated) {
  const std::lock_guard lock(mutex_);
  prompt_tokens_ += prompt;
  generated_tokens_ += generated;
}

void ServeMetrics::add_first_token(double seconds) {
  const std::lock_guard lock(mutex_);
  ++first_tokens_;
  first_token_seconds_ += seconds;
}

void ServeMetrics::add_lost_client() {
  const std::lock_guard lock(mutex_);
  ++lost_clients_;
}

std::string ServeMetrics::text(const TextService::Load& load, std::int64_t restarts) const {
  const std::lock_guard lock(mutex_);
  std::string text =
      "# HELP llmtrain_requests_total Requests that were answered.\n# TYPE llmtrain_requests_total counter\n";
  for (const auto& [request, count] : requests_)
    text +=
        fmt::format("llmtrain_requests_total{{path=\"{}\",status=\"{}\"}} {}\n", request.first, request.second, count);
  text += one("llmtrain_lost_clients_total", "counter", "Clients that left before their answer ended.", lost_clients_);
  text += one("llmtrain_model_restarts_total", "counter", "Times that the model was loaded again.", restarts);
  text += one("llmtrain_prompt_tokens_total", "counter", "Tokens of prompts.", prompt_tokens_);
  text += one("llmtrain_generated_tokens_total", "counter", "Tokens of answers.", generated_tokens_);
  text += one("llmtrain_draft_tokens_total", "counter", "Tokens that were guessed (--draft, --prompt-lookup).",
              load.drafted);
  text += one("llmtrain_accepted_tokens_total", "counter", "Of these, tokens that were right.", load.accepted);
  text += fmt::format(
      "# HELP llmtrain_first_token_seconds Time to the first token of a request.\n"
      "# TYPE llmtrain_first_token_seconds summary\nllmtrain_first_token_seconds_sum {}\n"
      "llmtrain_first_token_seconds_count {}\n",
      first_token_seconds_, first_tokens_);
  text += one("llmtrain_growing_texts", "gauge", "Texts that grow.", load.growing);
  text += one("llmtrain_waiting_texts", "gauge", "Texts that wait for a place.", load.waiting);
  text +=
      one("llmtrain_embedding_requests", "gauge", "Requests of embeddings that are computed or wait.", load.embedding);
  text += one("llmtrain_cache_used_bytes", "gauge", "Keys and values that texts have places for.", load.used_bytes);
  text += one("llmtrain_cache_bytes", "gauge", "Keys and values that there may be.", load.cache_bytes);
  return text;
}

}  // namespace llmtrain::app
