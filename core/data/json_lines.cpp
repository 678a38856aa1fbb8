// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_formats.h"

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/base/error.h"

namespace llmtrain {
namespace {

const std::string* text_of(const nlohmann::json& object) {
  if (!object.is_object()) return nullptr;
  const auto field = object.find("text");
  return field == object.end() ? nullptr : field->get_ptr<const std::string*>();
}

}  // namespace

std::string read_json_lines(std::span<const std::byte> bytes, const std::string& name) {
  std::string_view rest(reinterpret_cast<const char*>(bytes.data()), bytes.size());
  std::string texts;
  for (std::int64_t number = 1; !rest.empty(); ++number) {
    const std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    if (line.find_first_not_of(" \t\r") == std::string_view::npos) continue;
    const auto object = nlohmann::json::parse(line, nullptr, false);
    const std::string* text = text_of(object);
    if (text == nullptr) {
      throw Error(ExitCode::bad_data, name + ": line " + std::to_string(number) +
                                          (object.is_discarded() ? " is not valid JSON" : " has no string \"text\"") +
                                          "; every line of a .jsonl file is an object with a string \"text\"");
    }
    // Without a separator: the byte tokenizer has none, and documents must end with one of their own.
    texts += *text;
  }
  return texts;
}

}  // namespace llmtrain
