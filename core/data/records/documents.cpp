// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/documents.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/data/records/bad_lines.h"
#include "core/json/json_memory.h"

namespace llmtrain {

std::string document_of(Record& record, const std::filesystem::path& file, const std::string& key) {
  if (record.line == 0) return std::exchange(record.text, {});
  if (is_too_large_json(record.text)) throw BadLine(file, record.line, std::string(too_large_json));
  auto object = nlohmann::json::parse(record.text, nullptr, false);
  const auto field = object.is_object() ? object.find(key) : object.end();
  if (object.is_object() && field != object.end() && field->is_string())
    return std::move(field->get_ref<std::string&>());
  throw BadLine(file, record.line, object.is_discarded() ? "is not valid JSON" : "has no string \"" + key + "\"",
                "every line of a file of documents is an object with a string \"" + key + "\"");
}

}  // namespace llmtrain
