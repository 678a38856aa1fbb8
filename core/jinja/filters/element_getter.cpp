// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/filters/element_getter.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "core/jinja/functions/access.h"
#include "core/jinja/values/letter_case.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {
namespace {

Value part_of(std::string_view name) {
  const bool is_index =
      !name.empty() && std::ranges::all_of(name, [](char each) { return each >= '0' && each <= '9'; });
  if (!is_index) return text(std::string(name));
  std::int64_t index = 0;
  if (std::from_chars(name.data(), name.data() + name.size(), index).ec != std::errc())
    throw Refused("an index is beyond 64 bits");
  return integer(index);
}

}  // namespace

ElementGetter::ElementGetter(const Value& attribute, Value otherwise) : otherwise_(std::move(otherwise)) {
  if (attribute.is<None>()) return;
  const std::string* path = text_of(attribute);
  if (!path) {
    parts_.push_back(attribute);
    return;
  }
  for (std::size_t begin = 0; begin <= path->size();) {
    const std::size_t end = std::min(path->find('.', begin), path->size());
    parts_.push_back(part_of(std::string_view(*path).substr(begin, end - begin)));
    begin = end + 1;
  }
}

Value ElementGetter::get(const Value& element) const {
  Value value = element;
  for (const Value& part : parts_) {
    value = item(value, part);
    if (value.is<Undefined>() && !otherwise_.is<None>()) value = otherwise_;
  }
  return value;
}

Value without_case(const Value& value) {
  const std::string* given = text_of(value);
  return given ? text(lower(*given)) : value;
}

}  // namespace llmtrain::jinja
