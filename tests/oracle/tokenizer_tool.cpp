// SPDX-License-Identifier: Apache-2.0
// tokenizer_tool TOKENIZER.JSON: reads lines of JSON {"text": …, "pair": …} or {"ids": […]} and writes for each what
// the tokenizer makes of it: {"ids", "types", "decoded", "continued"}, or {"error"}.
#include <exception>
#include <iostream>
#include <nlohmann/json.hpp>
#include <string>

#include "core/tokenizer/encode_pair.h"
#include "core/tokenizer/open_tokenizer.h"

namespace {

using nlohmann::json;

json answer(const llmtrain::Tokenizer& tokenizer, llmtrain::TextEncoder& encoder, const json& request) {
  json result;
  std::vector<std::int64_t> ids;
  if (request.contains("ids")) {
    ids = request["ids"].get<std::vector<std::int64_t>>();
  } else {
    const auto text = request["text"].get<std::string>();
    std::optional<std::string> pair;
    if (request.contains("pair")) pair = request["pair"].get<std::string>();
    const llmtrain::TypedIds made = llmtrain::encode_pair(tokenizer, encoder, text, pair);
    result["ids"] = made.ids;
    result["types"] = made.types;
    ids.assign(made.ids.begin(), made.ids.end());
  }
  result["decoded"] = tokenizer.decode(ids);
  result["continued"] = tokenizer.decode_continuation(ids);
  return result;
}

}  // namespace

int main(int count, char** arguments) {
  if (count != 2) return 2;
  try {
    const auto tokenizer = llmtrain::open_tokenizer({llmtrain::TokenizerKind::huggingface, arguments[1]});
    const auto encoder = tokenizer->make_encoder();
    for (std::string line; std::getline(std::cin, line);) {
      json result;
      try {
        result = answer(*tokenizer, *encoder, json::parse(line));
      } catch (const std::exception& error) {
        result = {{"error", error.what()}};
      }
      std::cout << result.dump(-1, ' ', false, json::error_handler_t::replace) << '\n';
    }
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
  return 0;
}
