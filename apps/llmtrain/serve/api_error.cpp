// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/api_error.h"

#include "core/json/json_text.h"

namespace llmtrain::app {
namespace {

const char* kind_of_status(int status) {
  if (status == 401) return "authentication_error";
  if (status == 429) return "rate_limit_error";
  return status >= 500 ? "server_error" : "invalid_request_error";
}

}  // namespace

std::string error_text(int status, const std::string& field, const std::string& message) {
  Json answer;
  answer["error"] = {{"message", message},
                     {"type", kind_of_status(status)},
                     {"param", field.empty() ? Json() : Json(field)},
                     {"code", status}};
  return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace llmtrain::app
