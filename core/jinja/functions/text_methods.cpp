// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/functions/text_methods.h"

#include <algorithm>
#include <array>

#include "core/jinja/functions/brace_format.h"
#include "core/jinja/functions/native_function.h"
#include "core/jinja/values/format_spec.h"
#include "core/jinja/values/letter_case.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

using TextMethod = Value (*)(const std::string&, const Arguments&);

Value changed(const std::string& self, const Arguments& arguments, std::string (*change)(std::string_view)) {
  const BoundArguments bound("the method", arguments, {});
  return text(change(self));
}

Value upper_method(const std::string& self, const Arguments& arguments) { return changed(self, arguments, upper); }
Value lower_method(const std::string& self, const Arguments& arguments) { return changed(self, arguments, lower); }
Value title_method(const std::string& self, const Arguments& arguments) { return changed(self, arguments, title); }
Value capitalize_method(const std::string& self, const Arguments& arguments) {
  return changed(self, arguments, capitalize);
}
Value swapcase_method(const std::string& self, const Arguments& arguments) {
  return changed(self, arguments, swapcase);
}

Value stripped_text(const std::string& self, const Arguments& arguments, bool at_begin, bool at_end) {
  const BoundArguments bound("strip", arguments, {"chars"}, 0, false);
  const auto characters = bound.is_given(0) ? std::optional(bound.text(0, "")) : std::nullopt;
  return text(std::string(stripped(self, characters, at_begin, at_end)));
}

Value strip(const std::string& self, const Arguments& arguments) { return stripped_text(self, arguments, true, true); }
Value lstrip(const std::string& self, const Arguments& arguments) {
  return stripped_text(self, arguments, true, false);
}
Value rstrip(const std::string& self, const Arguments& arguments) {
  return stripped_text(self, arguments, false, true);
}

std::string fill_of(const BoundArguments& bound) {
  std::string fill = bound.text(1, " ");
  if (character_count(fill) != 1) throw Refused("The fill character must be exactly one character long");
  return fill;
}

Value center_method(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("center", arguments, {"width", "fillchar"}, 1, false);
  return text(centered(self, bound.integer(0, 0), fill_of(bound)));
}

Value ljust(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("ljust", arguments, {"width", "fillchar"}, 1, false);
  return text(aligned(self, bound.integer(0, 0), '<', fill_of(bound)));
}

Value rjust(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("rjust", arguments, {"width", "fillchar"}, 1, false);
  return text(aligned(self, bound.integer(0, 0), '>', fill_of(bound)));
}

Value zfill(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("zfill", arguments, {"width"}, 1, false);
  const std::size_t sign = self.starts_with('-') || self.starts_with('+') ? 1 : 0;
  const std::int64_t width = bound.integer(0, 0) - static_cast<std::int64_t>(sign);
  return text(self.substr(0, sign) + aligned(self.substr(sign), width, '>', "0"));
}

Value replace_method(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("replace", arguments, {"old", "new", "count"}, 2, false);
  return text(replaced(self, bound.text(0, ""), bound.text(1, ""), bound.integer(2, -1)));
}

Value removeprefix(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("removeprefix", arguments, {"prefix"}, 1, false);
  const std::string prefix = bound.text(0, "");
  return text(self.starts_with(prefix) ? self.substr(prefix.size()) : self);
}

Value removesuffix(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("removesuffix", arguments, {"suffix"}, 1, false);
  const std::string suffix = bound.text(0, "");
  return text(self.ends_with(suffix) ? self.substr(0, self.size() - suffix.size()) : self);
}

Value join_method(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("join", arguments, {"iterable"}, 1, false);
  return text(joined_texts(self, *bound.get(0)));
}

// The part of a text between two places among its characters, either of which may be left out or none.
struct Part {
  Part(const std::string& self, const BoundArguments& bound) : characters(decoded(self)) {
    const auto size = static_cast<std::int64_t>(characters.size());
    const auto place = [&](std::size_t parameter, std::int64_t otherwise) {
      const std::int64_t given = bound.is_given(parameter) ? bound.integer(parameter, 0) : otherwise;
      return std::max<std::int64_t>(given < 0 ? given + size : given, 0);
    };
    begin = place(1, 0);
    end = std::min(place(2, size), size);
    exists = begin <= end;
    if (exists) part = characters.substr(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  }

  std::u32string characters, part;
  std::int64_t begin, end;
  bool exists;
};

std::int64_t place_in(const std::string& self, const Arguments& arguments, bool is_last) {
  const BoundArguments bound("find", arguments, {"sub", "start", "end"}, 1, false);
  const Part part(self, bound);
  const std::u32string sought = decoded(bound.text(0, ""));
  if (!part.exists) return -1;
  const std::size_t found = is_last ? part.part.rfind(sought) : part.part.find(sought);
  return found == std::u32string::npos ? -1 : part.begin + static_cast<std::int64_t>(found);
}

Value find_method(const std::string& self, const Arguments& arguments) {
  return integer(place_in(self, arguments, false));
}
Value rfind(const std::string& self, const Arguments& arguments) { return integer(place_in(self, arguments, true)); }

Value index_of_text(const std::string& self, const Arguments& arguments, bool is_last) {
  const std::int64_t place = place_in(self, arguments, is_last);
  if (place < 0) throw Refused("substring not found");
  return integer(place);
}

Value index_method(const std::string& self, const Arguments& arguments) {
  return index_of_text(self, arguments, false);
}
Value rindex(const std::string& self, const Arguments& arguments) { return index_of_text(self, arguments, true); }

Value count_method(const std::string& self, const Arguments& arguments) {
  const BoundArguments bound("count", arguments, {"sub", "start", "end"}, 1, false);
  const Part part(self, bound);
  const std::u32string sought = decoded(bound.text(0, ""));
  if (!part.exists) return integer(0);
  if (sought.empty()) return integer_of_size(part.part.size() + 1);
  std::int64_t count = 0;
  for (std::size_t found = part.part.find(sought); found != std::u32string::npos;
       found = part.part.find(sought, found + sought.size()))
    ++count;
  return integer(count);
}

bool is_at_end(const Part& part, const Value& sought, bool at_begin) {
  const std::string* affix = text_of(sought);
  if (!affix) throw Refused("startswith first arg must be str or a tuple of str, not " + type_name(sought));
  if (!part.exists) return false;
  return at_begin ? part.part.starts_with(decoded(*affix)) : part.part.ends_with(decoded(*affix));
}

Value has_affix(const std::string& self, const Arguments& arguments, bool at_begin) {
  const BoundArguments bound("startswith", arguments, {"prefix", "start", "end"}, 1, false);
  const Part part(self, bound);
  const auto* several = bound.get(0)->as<Tuple>();
  if (!several) return boolean(is_at_end(part, *bound.get(0), at_begin));
  return boolean(
      std::ranges::any_of(several->items->values, [&](const Value& each) { return is_at_end(part, each, at_begin); }));
}

Value startswith(const std::string& self, const Arguments& arguments) { return has_affix(self, arguments, true); }
Value endswith(const std::string& self, const Arguments& arguments) { return has_affix(self, arguments, false); }

Value format_method(const std::string& self, const Arguments& arguments) {
  return text(brace_formatted(self, arguments));
}

constexpr std::pair<std::string_view, TextMethod> methods[] = {{"capitalize", capitalize_method},
                                                               {"center", center_method},
                                                               {"count", count_method},
                                                               {"endswith", endswith},
                                                               {"find", find_method},
                                                               {"format", format_method},
                                                               {"index", index_method},
                                                               {"isalnum", isalnum},
                                                               {"isalpha", isalpha},
                                                               {"isascii", isascii},
                                                               {"isdecimal", isdecimal},
                                                               {"isdigit", isdigit},
                                                               {"islower", islower},
                                                               {"isnumeric", isnumeric},
                                                               {"isprintable", isprintable},
                                                               {"isspace", isspace},
                                                               {"istitle", istitle},
                                                               {"isupper", isupper},
                                                               {"join", join_method},
                                                               {"ljust", ljust},
                                                               {"lower", lower_method},
                                                               {"lstrip", lstrip},
                                                               {"partition", partition},
                                                               {"removeprefix", removeprefix},
                                                               {"removesuffix", removesuffix},
                                                               {"replace", replace_method},
                                                               {"rfind", rfind},
                                                               {"rindex", rindex},
                                                               {"rjust", rjust},
                                                               {"rpartition", rpartition},
                                                               {"rsplit", rsplit},
                                                               {"rstrip", rstrip},
                                                               {"split", split},
                                                               {"splitlines", splitlines},
                                                               {"startswith", startswith},
                                                               {"strip", strip},
                                                               {"swapcase", swapcase_method},
                                                               {"title", title_method},
                                                               {"upper", upper_method},
                                                               {"zfill", zfill}};

bool is_unsupported(std::string_view name) {
  static constexpr std::array<std::string_view, 7> names = {"casefold",     "encode",    "expandtabs", "format_map",
                                                            "isidentifier", "maketrans", "translate"};
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

std::string centered(std::string_view bytes, std::int64_t width, std::string_view fill) {
  const std::int64_t margin = width - static_cast<std::int64_t>(character_count(bytes));
  if (margin <= 0) return std::string(bytes);
  const std::int64_t left = margin / 2 + (margin & width & 1);
  return aligned(aligned(bytes, width - margin + left, '>', fill), width, '<', fill);
}

std::optional<Value> text_method(const Value& text, std::string_view name) {
  if (is_unsupported(name)) throw Refused("the method " + std::string(name) + "() of texts is not supported");
  const auto* found = std::ranges::find(methods, name, [](const auto& each) { return each.first; });
  if (found == std::end(methods)) return std::nullopt;
  return object(std::make_shared<NativeFunction>(
      std::string(name), [self = plain_text(text), method = found->second](const Arguments& arguments) {
        return method(self, arguments);
      }));
}

}  // namespace llmtrain::jinja
