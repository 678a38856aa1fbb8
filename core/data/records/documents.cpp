// SPDX-License-Identifier: Apache-2.0
#include "core/data/records/documents.h"

#include <nlohmann/json.hpp>
#include <utility>

#include "core/data/records/bad_lines.h"
#include "core/json/json_file.h"
#include "core/json/json_memory.h"

namespace llmtrain {

namespace {

bool is_of_conversations(const nlohmann::json& row) {
  if (!row.is_object()) return false;
  const auto has = [&](const char* key) { return row.contains(key); };
  const bool has_messages = has("messages") || has("conversations") || has("conversation");
  return has_messages || (has("prompt") && has("completion")) || (has("instruction") && has("output")) ||
         (has("chosen") && has("rejected"));
}

// The keys of a row that is none of the documents, for people.
std::string keys_of(const nlohmann::json& row) {
  if (!row.is_object()) return "";
  std::string names;
  int count = 0;
  for (const auto& [name, value] : row.items()) {
    if (++count > 20) return names + ", …";
    names += (names.empty() ? "" : ", ") + quoted_text(name);
  }
  const std::string of_names =
      is_of_conversations(row) ? "; conversations and their like are trained on with data.fine_tuning" : "";
  return of_names + "; this one has " + (names.empty() ? "no keys" : names) +
         (names.empty() ? "" : ", of which data.train[].text_key (--key of the data commands) may name another");
}

}  // namespace

std::string document_of(Record& record, const std::filesystem::path& file, const std::string& key) {
  if (record.line == 0) return std::exchange(record.text, {});
  if (is_too_large_json(record.text)) throw BadLine(file, record.line, std::string(too_large_json));
  auto object = nlohmann::json::parse(record.text, nullptr, false);
  const auto field = object.is_object() ? object.find(key) : object.end();
  if (object.is_object() && field != object.end() && field->is_string())
    return std::move(field->get_ref<std::string&>());
  throw BadLine(file, record.line, object.is_discarded() ? "is not valid JSON" : "has no string \"" + key + "\"",
                "every line of a file of documents is an object with a string \"" + key + "\"" + keys_of(object));
}

bool is_of_conversations(const Record& record) {
  return !is_too_large_json(record.text) && is_of_conversations(nlohmann::json::parse(record.text, nullptr, false));
}

}  // namespace llmtrain
