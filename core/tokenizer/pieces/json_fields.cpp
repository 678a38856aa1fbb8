// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/pieces/json_fields.h"

#include <limits>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/json_memory.h"

namespace llmtrain {

JsonFields::JsonFields(const std::filesystem::path& file, const nlohmann::json& value, std::string place)
    : file_(file), value_(value), place_(std::move(place)) {}

bool JsonFields::has(const char* key) const {
  if (!value_.is_object()) fail("is not an object");
  const auto field = value_.find(key);
  return field != value_.end() && !field->is_null();
}

const nlohmann::json& JsonFields::at(const char* key) const {
  if (!has(key)) fail(std::string("has no \"") + key + "\"");
  return *value_.find(key);
}

JsonFields JsonFields::section(const char* key) const { return {file_, at(key), place_ + "/" + key}; }

JsonFields JsonFields::element(std::size_t index) const {
  return {file_, value_.at(index), place_ + "/" + std::to_string(index)};
}

std::size_t JsonFields::size() const {
  if (!value_.is_array()) fail("is not a list");
  return value_.size();
}

std::string JsonFields::text(const char* key) const {
  const auto* text = at(key).get_ptr<const std::string*>();
  if (text == nullptr) section(key).fail("is not a string");
  return *text;
}

std::int64_t JsonFields::whole_number(const char* key) const {
  const nlohmann::json& number = at(key);
  // Ids are stored in 32 bits; a larger number is damage.
  if (!number.is_number_integer() || number < 0 || number >= std::numeric_limits<std::int32_t>::max())
    section(key).fail("is not a whole number from 0 to 2147483646");
  return number.get<std::int64_t>();
}

bool JsonFields::flag(const char* key, bool missing) const {
  if (!has(key)) return missing;
  if (!at(key).is_boolean()) section(key).fail("is neither true nor false");
  return at(key).get<bool>();
}

void JsonFields::refuse_flag(const char* key) const {
  if (flag(key, false)) section(key).fail("true is not supported");
}

void JsonFields::fail(std::string_view what) const {
  throw Error(ExitCode::bad_data, file_.string() + ": " + (place_.empty() ? "" : place_ + ": ") + std::string(what));
}

nlohmann::json read_json_file(const std::filesystem::path& file) {
  const std::string text = read_file(file);
  if (is_too_large_json(text)) throw Error(ExitCode::bad_data, file.string() + ": " + std::string(too_large_json));
  nlohmann::json value = nlohmann::json::parse(text, nullptr, false);
  if (value.is_discarded())
    throw Error(ExitCode::bad_data, file.string() + ": is not valid JSON: it is damaged or cut short; copy it again");
  return value;
}

}  // namespace llmtrain
