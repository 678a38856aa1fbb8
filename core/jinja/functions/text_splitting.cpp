// SPDX-License-Identifier: Apache-2.0
// The methods of texts that take them apart.
#include <algorithm>

#include "core/jinja/functions/text_methods.h"
#include "core/jinja/values/iteration.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

Value list_of_texts(const std::vector<std::string_view>& parts) {
  std::vector<Value> values;
  for (const std::string_view part : parts) values.push_back(text(std::string(part)));
  return list(std::move(values));
}

// Where the first character that is white space begins.
std::size_t find_space(std::string_view bytes) {
  for (std::size_t position = 0; position < bytes.size();) {
    const std::size_t begin = position;
    if (is_space(next_character(bytes, position))) return begin;
  }
  return std::string_view::npos;
}

// Behind the last character that is white space, or 0.
std::size_t behind_last_space(std::string_view bytes) {
  std::size_t behind = 0;
  for (std::size_t position = 0; position < bytes.size();) {
    if (is_space(next_character(bytes, position))) behind = position;
  }
  return behind;
}

std::vector<std::string_view> split_at_space(std::string_view bytes, std::int64_t most) {
  std::vector<std::string_view> parts;
  for (bytes = stripped(bytes, std::nullopt, true, false); !bytes.empty();
       bytes = stripped(bytes, std::nullopt, true, false)) {
    const std::size_t end = find_space(bytes);
    if (end == std::string_view::npos || (most >= 0 && static_cast<std::int64_t>(parts.size()) >= most)) {
      parts.push_back(bytes);
      break;
    }
    parts.push_back(bytes.substr(0, end));
    bytes = bytes.substr(end);
  }
  return parts;
}

std::vector<std::string_view> split_at_space_from_end(std::string_view bytes, std::int64_t most) {
  if (most < 0) return split_at_space(bytes, -1);
  std::vector<std::string_view> parts;
  for (bytes = stripped(bytes, std::nullopt, false, true); !bytes.empty();
       bytes = stripped(bytes, std::nullopt, false, true)) {
    const std::size_t begin = behind_last_space(bytes);
    if (begin == 0 || static_cast<std::int64_t>(parts.size()) >= most) {
      parts.push_back(bytes);
      break;
    }
    parts.push_back(bytes.substr(begin));
    bytes = bytes.substr(0, begin);
  }
  std::ranges::reverse(parts);
  return parts;
}

std::vector<std::string_view> split_at(std::string_view bytes, std::string_view separator, std::int64_t most) {
  std::vector<std::string_view> parts;
  for (std::size_t found = bytes.find(separator);
       found != std::string_view::npos && (most < 0 || static_cast<std::int64_t>(parts.size()) < most);
       found = bytes.find(separator)) {
    parts.push_back(bytes.substr(0, found));
    bytes = bytes.substr(found + separator.size());
  }
  parts.push_back(bytes);
  return parts;
}

std::vector<std::string_view> split_at_from_end(std::string_view bytes, std::string_view separator, std::int64_t most) {
  std::vector<std::string_view> parts;
  for (std::size_t found = bytes.rfind(separator);
       found != std::string_view::npos && (most < 0 || static_cast<std::int64_t>(parts.size()) < most);
       found = bytes.rfind(separator)) {
    parts.push_back(bytes.substr(found + separator.size()));
    bytes = bytes.substr(0, found);
  }
  parts.push_back(bytes);
  std::ranges::reverse(parts);
  return parts;
}

std::string separator_of(const BoundArguments& bound) {
  std::string separator = bound.text(0, "");
  if (separator.empty()) throw Refused("empty separator");
  return separator;
}

}  // namespace

Value split(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("split", arguments, {"sep", "maxsplit"});
  const std::int64_t most = bound.integer(1, -1);
  return list_of_texts(bound.is_given(0) ? split_at(self, separator_of(bound), most) : split_at_space(self, most));
}

Value rsplit(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("rsplit", arguments, {"sep", "maxsplit"});
  const std::int64_t most = bound.integer(1, -1);
  return list_of_texts(bound.is_given(0) ? split_at_from_end(self, separator_of(bound), most)
                                         : split_at_space_from_end(self, most));
}

Value splitlines(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("splitlines", arguments, {"keepends"});
  return list_of_texts(lines_of(self, bound.flag(0, false)));
}

Value partition(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("partition", arguments, {"sep"}, 1, false);
  const std::string separator = separator_of(bound);
  const std::size_t found = self.find(separator);
  if (found == std::string::npos) return tuple({text(self), text(""), text("")});
  return tuple({text(self.substr(0, found)), text(separator), text(self.substr(found + separator.size()))});
}

Value rpartition(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("rpartition", arguments, {"sep"}, 1, false);
  const std::string separator = separator_of(bound);
  const std::size_t found = self.rfind(separator);
  if (found == std::string::npos) return tuple({text(""), text(""), text(self)});
  return tuple({text(self.substr(0, found)), text(separator), text(self.substr(found + separator.size()))});
}

std::string joined_texts(std::string_view between, const Value& elements) {
  TextBuilder result;
  std::size_t place = 0;
  for (const Value& each : all_of(elements)) {
    const std::string* part = text_of(each);
    if (!part) {
      throw Refused("sequence item " + std::to_string(place) + ": expected str instance, " + type_name(each) +
                    " found");
    }
    if (place++ > 0) result.add(between);
    result.add(*part);
  }
  return result.take();
}

}  // namespace llmtrain::jinja
