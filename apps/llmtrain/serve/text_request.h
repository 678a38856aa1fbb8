// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "apps/llmtrain/serve/request_fields.h"
#include "apps/llmtrain/serve/served_model.h"
#include "parallel/runtime/text_service.h"

namespace llmtrain::app {

enum class ApiKind { completions, chat };

// What a body of /v1/completions or /v1/chat/completions asks for.
struct ApiRequest {
  ApiKind kind = ApiKind::completions;
  std::vector<std::vector<std::int64_t>> prompts;
  ServedText text;           // what all texts have, but for the prompt and the numbers
  std::int64_t samples = 1;  // texts of each prompt
  std::vector<std::string> stop;
  bool streams = false;
  bool streams_usage = false;
  bool returns_ids = false;

  std::int64_t choices() const { return static_cast<std::int64_t>(prompts.size()) * samples; }
  std::int64_t prompt_tokens() const;
  // The texts of all choices, in their order.
  std::vector<ServedText> texts() const;
};

// Throws ApiError: 400 for what is not a request, of which it names the field; 404 for another model.
ApiRequest read_api_request(ApiKind kind, std::string_view body, ServedModel& model);

}  // namespace llmtrain::app
