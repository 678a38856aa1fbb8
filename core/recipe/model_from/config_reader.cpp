// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/config_reader.h"

#include <limits>

#include "core/base/error.h"
#include "core/json/json_file.h"

namespace llmtrain {
namespace {

using JsonValue = nlohmann::json;

}  // namespace

const JsonValue* ConfigReader::get(const std::string& key) const {
  const JsonValue::json_pointer pointer("/" + key);
  return holds(key) && !config_.at(pointer).is_null() ? &config_.at(pointer) : nullptr;
}

bool ConfigReader::holds(const std::string& key) const { return config_.contains(JsonValue::json_pointer("/" + key)); }

void ConfigReader::problem(const std::string& key, const std::string& what) {
  problems_.append(problems_.empty() ? "" : "\n").append(file_ + ": /" + key + ": " + what);
}

std::int64_t ConfigReader::size(const std::string& key, std::optional<std::int64_t> otherwise) {
  const JsonValue* value = get(key);
  if (value == nullptr && otherwise) return *otherwise;
  // Far above any model, and products of two sizes fit 64 bits.
  constexpr std::int64_t most = std::numeric_limits<std::int32_t>::max();
  const bool fits = value != nullptr && value->is_number_integer() && *value >= 1 && *value <= most;
  if (fits) return value->get<std::int64_t>();
  problem(key, value == nullptr ? "is missing" : "is " + shown(*value) + "; a size from 1 to 2147483647 is needed");
  // A valid value, so that reading goes on and finds further problems.
  return 1;
}

double ConfigReader::number(const std::string& key, double otherwise) {
  return read(key, &JsonValue::is_number, "a number", otherwise);
}

bool ConfigReader::boolean(const std::string& key, bool otherwise) {
  return read(key, &JsonValue::is_boolean, "true or false", otherwise);
}

std::string ConfigReader::text(const std::string& key, const std::string& otherwise) {
  return read(key, &JsonValue::is_string, "a string", otherwise);
}

void ConfigReader::require(const std::string& key, bool expected, bool otherwise) {
  if (boolean(key, otherwise) != expected)
    problem(key, std::string("is ") + (expected ? "false" : "true") + "; only the other value is supported");
}

void ConfigReader::finish() const {
  if (!problems_.empty()) throw Error(ExitCode::bad_data, problems_);
}

std::string ConfigReader::shown(const JsonValue& value) {
  return value.is_string() ? quoted_text(value.get<std::string>()) : value.dump().substr(0, 200);
}

template <class Value>
Value ConfigReader::read(const std::string& key, bool (JsonValue::*is_kind)() const noexcept, const std::string& kind,
                         const Value& otherwise) {
  const JsonValue* found = get(key);
  if (found == nullptr) return otherwise;
  if ((found->*is_kind)()) return found->get<Value>();
  problem(key, "is " + shown(*found) + "; " + kind + " is needed");
  return otherwise;
}

}  // namespace llmtrain
