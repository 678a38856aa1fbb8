// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/functions/brace_format.h"

#include <algorithm>
#include <charconv>

#include "core/jinja/functions/access.h"
#include "core/jinja/values/format_spec.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

std::optional<std::int64_t> index_of(std::string_view digits) {
  std::int64_t index = 0;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), index);
  const bool is_index = error == std::errc() && end == digits.data() + digits.size() && digits[0] != '-';
  return is_index ? std::optional(index) : std::nullopt;
}

class BraceFormatter {
 public:
  explicit BraceFormatter(const Arguments& arguments) : arguments_(arguments) {}

  std::string write(std::string_view format, int level = 0) {
    if (level > 1) throw Refused("Max string recursion exceeded");
    TextBuilder result;
    for (std::size_t place = 0; place < format.size();) {
      const std::size_t brace = std::min(format.find_first_of("{}", place), format.size());
      result.add(format.substr(place, brace - place));
      if (brace == format.size()) break;
      if (format.substr(brace, 2) == "{{" || format.substr(brace, 2) == "}}") {
        result.add(format.substr(brace, 1));
        place = brace + 2;
        continue;
      }
      if (format[brace] == '}') throw Refused("Single '}' encountered in format string");
      const std::size_t end = end_of_field(format, brace);
      result.add(field(format.substr(brace + 1, end - brace - 1), level));
      place = end + 1;
    }
    return result.take();
  }

 private:
  static std::size_t end_of_field(std::string_view format, std::size_t open) {
    int depth = 0;
    for (std::size_t place = open; place < format.size(); ++place) {
      depth += format[place] == '{' ? 1 : format[place] == '}' ? -1 : 0;
      if (depth == 0) return place;
    }
    throw Refused("expected '}' before end of string");
  }

  std::string field(std::string_view inner, int level) {
    const std::size_t bracket = inner.find('[');
    const std::size_t name_end = std::min(
        inner.find_first_of("!:", bracket < inner.find_first_of("!:") ? std::min(inner.find(']'), inner.size()) : 0),
        inner.size());
    Value value = value_of_field(inner.substr(0, name_end));
    std::string_view rest = inner.substr(name_end);
    if (rest.starts_with('!')) {
      const char conversion = rest.size() > 1 ? rest[1] : ' ';
      if (conversion != 'r' && conversion != 's') throw Refused("the conversion of a format field is not supported");
      value = text(conversion == 'r' ? repr(value) : str(value));
      rest = rest.substr(2);
    }
    if (rest.empty()) return formatted(value, "");
    if (rest[0] != ':') throw Refused("expected ':' after conversion specifier");
    return formatted(value, write(rest.substr(1), level + 1));
  }

  Value value_of_field(std::string_view name) {
    const std::size_t end = std::min(name.find_first_of(".["), name.size());
    Value value = first_value(name.substr(0, end));
    for (std::size_t place = end; place < name.size();) {
      if (name[place] == '.') {
        const std::size_t next = std::min(name.find_first_of(".[", place + 1), name.size());
        value = attribute(value, name.substr(place + 1, next - place - 1));
        place = next;
      } else {
        const std::size_t close = name.find(']', place);
        if (name[place] != '[' || close == std::string_view::npos) throw Refused("Missing ']' in format string");
        const std::string_view key = name.substr(place + 1, close - place - 1);
        const auto index = key.empty() ? std::nullopt : index_of(key);
        value = item(value, index ? integer(*index) : text(std::string(key)));
        place = close + 1;
      }
    }
    return value;
  }

  Value first_value(std::string_view name) {
    if (name.empty()) {
      if (is_numbered_) throw Refused("cannot switch from manual field specification to automatic field numbering");
      counts_ = true;
      return positional(next_++);
    }
    if (const auto index = index_of(name)) {
      if (counts_) throw Refused("cannot switch from automatic field numbering to manual field specification");
      is_numbered_ = true;
      return positional(*index);
    }
    const auto found = std::ranges::find(arguments_.named, name, [](const auto& each) { return each.first; });
    if (found == arguments_.named.end()) throw Refused("there is no argument " + repr(name) + " for the format");
    return found->second;
  }

  Value positional(std::int64_t index) const {
    if (index >= static_cast<std::int64_t>(arguments_.positional.size()))
      throw Refused("Replacement index " + std::to_string(index) + " out of range for positional args tuple");
    return arguments_.positional[static_cast<std::size_t>(index)];
  }

  const Arguments& arguments_;
  std::int64_t next_ = 0;
  bool counts_ = false, is_numbered_ = false;
};

}  // namespace

std::string brace_formatted(std::string_view format, const Arguments& arguments) {
  return BraceFormatter(arguments).write(format);
}

}  // namespace llmtrain::jinja
