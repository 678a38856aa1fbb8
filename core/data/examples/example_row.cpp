// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/example_row.h"

#include <spdlog/fmt/fmt.h>

#include <utility>
#include <vector>

#include "core/data/records/bad_lines.h"
#include "core/json/json_memory.h"

namespace llmtrain {
namespace {

// Null where the text is no pointer, or nothing stands there.
const Json* find_by_pointer(const Json& row, const std::string& text) {
  if (!text.starts_with('/')) return nullptr;
  try {
    const Json::json_pointer pointer(text);
    return row.contains(pointer) ? &row.at(pointer) : nullptr;
  } catch (const Json::exception&) {
    return nullptr;
  }
}

}  // namespace

ExampleRow::ExampleRow(const Record& record, const std::filesystem::path& file, std::string_view section)
    : line_(record.line), file_(file), section_(section) {
  if (is_too_large_json(record.text)) fail(std::string(too_large_json));
  row_ = Json::parse(record.text, nullptr, false);
  if (!row_.is_object()) fail(row_.is_discarded() ? "is not valid JSON" : "is no object");
}

const Json& ExampleRow::at(const std::string& key, std::string_view kind) const {
  if (row_.contains(key)) return row_[key];
  const Json* const found = find_by_pointer(row_, key);
  if (found == nullptr) fail_kind(key, kind);
  return *found;
}

std::string ExampleRow::text_at(const std::string& key) const {
  const Json& value = at(key, "string");
  if (!value.is_string()) fail_kind(key, "string");
  return value.get<std::string>();
}

Json ExampleRow::list_at(const std::string& key) const {
  Json list = at(key, "list");
  if (list.is_string()) list = Json::parse(list.get_ref<const std::string&>(), nullptr, false);
  if (!list.is_array()) fail_kind(key, "list");
  return list;
}

void ExampleRow::fail(std::string reason, const std::string& advice) const {
  throw BadLine(file_, line_, std::move(reason), advice);
}

void ExampleRow::fail_kind(const std::string& key, std::string_view kind) const {
  std::vector<std::string> keys;
  constexpr std::size_t most = 20;
  for (const auto& [name, value] : row_.items()) {
    if (keys.size() == most) break;
    keys.push_back(fmt::format("\"{}\"", shown_text(name)));
  }
  if (row_.size() > most) keys.emplace_back("…");
  fail(fmt::format("has no {} \"{}\"", kind, key),
       fmt::format("{} names the keys of rows; this one has {}", section_,
                   keys.empty() ? "none" : fmt::format("{}", fmt::join(keys, ", "))));
}

}  // namespace llmtrain
