// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/request_fields.h"

#include <spdlog/fmt/fmt.h>

#include <limits>
#include <utility>

#include "apps/llmtrain/serve/api_error.h"

namespace llmtrain::app {
namespace {

[[noreturn]] void refuse(const std::string& name, const Json& value, const std::string& rule) {
  throw ApiError(400, name, fmt::format("{} must be {}", shown_value(value), rule));
}

}  // namespace

RequestFields::RequestFields(std::string_view body) {
  JsonText read = parse_json(body);
  if (!read.error.empty()) throw ApiError(400, "", "the body is not JSON: " + read.error);
  if (!read.value.is_object()) throw ApiError(400, "", "the body is not a JSON object");
  if (!read.duplicates.empty()) throw ApiError(400, read.duplicates.front().substr(1), "is given twice");
  object_ = std::move(read.value);
}

const Json& RequestFields::value(const std::string& name) {
  static const Json none;
  known_.insert(name);
  const auto found = object_.find(name);
  return found == object_.end() ? none : *found;
}

std::optional<std::int64_t> RequestFields::whole_number(const std::string& name, std::int64_t least,
                                                        std::int64_t most) {
  const Json& given = value(name);
  if (given.is_null()) return std::nullopt;
  // Unsigned numbers beyond the signed ones would become negative.
  const bool fits = given.is_number_integer() &&
                    !(given.is_number_unsigned() && given.get<std::uint64_t>() > static_cast<std::uint64_t>(most)) &&
                    given.get<std::int64_t>() >= least && given.get<std::int64_t>() <= most;
  if (!fits) refuse(name, given, fmt::format("a whole number from {} to {}", least, most));
  return given.get<std::int64_t>();
}

std::optional<double> RequestFields::number(const std::string& name, double least, double most) {
  const Json& given = value(name);
  if (given.is_null()) return std::nullopt;
  if (!given.is_number() || !(given.get<double>() >= least && given.get<double>() <= most))
    refuse(name, given, fmt::format("a number from {} to {}", least, most));
  return given.get<double>();
}

bool RequestFields::flag(const std::string& name) {
  const Json& given = value(name);
  if (given.is_null()) return false;
  if (!given.is_boolean()) refuse(name, given, "true or false");
  return given.get<bool>();
}

std::optional<std::string> RequestFields::text(const std::string& name) {
  const Json& given = value(name);
  if (given.is_null()) return std::nullopt;
  if (!given.is_string()) refuse(name, given, "a text");
  return given.get<std::string>();
}

std::vector<std::string> RequestFields::texts(const std::string& name, std::size_t most) {
  const Json& given = value(name);
  if (given.is_null()) return {};
  const Json list = given.is_array() ? given : Json::array({given});
  std::vector<std::string> result;
  for (const Json& text : list) {
    if (!text.is_string() || text.get_ref<const std::string&>().empty())
      refuse(name, text, "a text that is not empty, or a list of such");
    result.push_back(text.get<std::string>());
  }
  if (result.size() > most) refuse(name, given, fmt::format("at most {} texts", most));
  return result;
}

void RequestFields::ignore(const std::vector<std::string>& names) { known_.insert(names.begin(), names.end()); }

void RequestFields::require_unused(const std::string& name, const Json& unused, const std::string& why) {
  const Json& given = value(name);
  if (given.is_null() || given == unused) return;
  throw ApiError(400, name, fmt::format("{} is not supported; {}", shown_value(given), why));
}

void RequestFields::require_known() const {
  for (const auto& [name, value] : object_.items())
    if (!known_.contains(name)) throw ApiError(400, name, "is no field that this server knows");
}

std::vector<std::int64_t> token_ids_of(const Json& list, const std::string& name) {
  std::vector<std::int64_t> ids;
  for (const Json& id : list) {
    if (!id.is_number_unsigned() || id.get<std::uint64_t>() > std::numeric_limits<std::int32_t>::max())
      throw ApiError(400, name, fmt::format("{} is no token's id", shown_value(id)));
    ids.push_back(id.get<std::int64_t>());
  }
  if (ids.empty()) throw ApiError(400, name, "is an empty list");
  return ids;
}

}  // namespace llmtrain::app
