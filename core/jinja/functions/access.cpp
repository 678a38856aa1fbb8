// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/functions/access.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <optional>

#include "core/jinja/functions/container_methods.h"
#include "core/jinja/functions/native_function.h"
#include "core/jinja/functions/range.h"
#include "core/jinja/functions/text_methods.h"
#include "core/jinja/values/comparison.h"
#include "core/jinja/values/object.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {
namespace {

// What every object of Python has: reachable there, but not from a sandbox.
bool is_internal(std::string_view name) {
  static constexpr std::array<std::string_view, 12> names = {"__class__",        "__doc__",  "__init__",   "__dict__",
                                                             "__eq__",           "__repr__", "__str__",    "__hash__",
                                                             "__getattribute__", "__new__",  "__reduce__", "__dir__"};
  return std::ranges::find(names, name) != names.end();
}

bool is_unsupported_number_attribute(const Value& value, std::string_view name) {
  static constexpr std::array<std::string_view, 11> names = {
      "real",       "imag",      "numerator", "denominator", "conjugate",       "to_bytes",
      "bit_length", "bit_count", "hex",       "is_integer",  "as_integer_ratio"};
  const bool is_number = value.is<bool>() || value.is<std::int64_t>() || value.is<double>();
  return is_number && std::ranges::find(names, name) != names.end();
}

void check_is_defined(const Value& value) {
  if (const auto* missing = value.as<Undefined>()) throw Refused(*missing->why);
}

Value unsafe(const Value& object, std::string_view name) {
  return undefined(fmt::format("access to attribute {} of {} object is unsafe.", repr(name), repr(type_name(object))));
}

Value missing_attribute(const Value& object, std::string_view name) {
  return undefined(fmt::format("'{}' has no attribute {}",
                               object.is<None>() ? std::string("None") : type_name(object) + " object", repr(name)));
}

Value missing_element(const Value& object, const Value& index) {
  if (const auto* name = text_of(index)) return missing_attribute(object, *name);
  return undefined(fmt::format("{} has no element {}",
                               object.is<None>() ? std::string("None") : type_name(object) + " object", repr(index)));
}

std::optional<std::int64_t> index_in(const Value& value) {
  if (const auto* flag = value.as<bool>()) return *flag ? 1 : 0;
  if (const auto* integer = value.as<std::int64_t>()) return *integer;
  return std::nullopt;
}

std::optional<Value> element_at(const Value& object, std::int64_t index) {
  if (const auto* elements = elements_of(object)) {
    const auto size = static_cast<std::int64_t>(elements->size());
    if (index < 0) index += size;
    if (index < 0 || index >= size) return std::nullopt;
    return (*elements)[static_cast<std::size_t>(index)];
  }
  if (text_of(object)) {
    const std::u32string characters = decoded(plain_text(object));
    const auto size = static_cast<std::int64_t>(characters.size());
    if (index < 0) index += size;
    if (index < 0 || index >= size) return std::nullopt;
    return text(encoded({&characters[static_cast<std::size_t>(index)], 1}));
  }
  const auto* owner = object.as<std::shared_ptr<Object>>();
  return owner ? (*owner)->element(index) : std::nullopt;
}

// Whether Python's object[index] finds something; a wrong type of index is not found.
std::optional<Value> subscribed(const Value& object, const Value& index) {
  if (const auto* dictionary = object.as<Dictionary>()) {
    if (index.is<List>() || index.is<Dictionary>()) return std::nullopt;
    const Value* found = find(*dictionary, index);
    return found ? std::optional(*found) : std::nullopt;
  }
  const auto place = index_in(index);
  return place ? element_at(object, *place) : std::nullopt;
}

// The places that a slice takes, as Python's slice.indices() says.
struct Places {
  std::int64_t begin, end, step;
};

std::optional<Places> places_of(std::int64_t size, const Value& begin, const Value& end, const Value& step) {
  const auto given = [](const Value& value) { return value.is<None>() || index_in(value); };
  if (!given(begin) || !given(end) || !given(step)) return std::nullopt;
  const std::int64_t stride = index_in(step).value_or(1);
  if (stride == 0) throw Refused("slice step cannot be zero");
  const std::int64_t lowest = stride > 0 ? 0 : -1, highest = stride > 0 ? size : size - 1;
  const auto place = [&](const Value& value, std::int64_t otherwise) {
    auto index = index_in(value);
    if (!index) return otherwise;
    if (*index < 0) *index += size;
    return std::clamp(*index, lowest, highest);
  };
  return Places{place(begin, stride > 0 ? lowest : highest), place(end, stride > 0 ? highest : lowest), stride};
}

template <typename Container>
Container taken(const Container& container, const Places& places) {
  Container result;
  WideInteger place = places.begin;
  for (; places.step > 0 ? place < places.end : place > places.end; place += places.step)
    result.push_back(container[static_cast<std::size_t>(place)]);
  return result;
}

}  // namespace

std::optional<Value> own_attribute(const Value& object, std::string_view name) {
  if (is_internal(name)) return unsafe(object, name);
  if (text_of(object)) return text_method(object, name);
  if (elements_of(object) || object.is<Dictionary>()) {
    if (changes_container(object, name)) return unsafe(object, name);
    return container_method(object, name);
  }
  if (is_unsupported_number_attribute(object, name))
    throw Refused(fmt::format("the attribute {} of numbers is not supported", repr(name)));
  if (const auto* owner = object.as<std::shared_ptr<Object>>()) {
    auto found = (*owner)->attribute(name);
    return found && name.starts_with('_') ? unsafe(object, name) : std::move(found);
  }
  return std::nullopt;
}

Value attribute(const Value& object, std::string_view name) {
  if (is_internal(name)) return unsafe(object, name);
  check_is_defined(object);
  if (auto found = own_attribute(object, name)) return *found;
  if (auto found = subscribed(object, text(std::string(name)))) return *found;
  return missing_attribute(object, name);
}

Value item(const Value& object, const Value& index) {
  check_is_defined(object);
  if (auto found = subscribed(object, index)) return *found;
  if (const auto* name = text_of(index)) {
    if (auto found = own_attribute(object, *name)) return *found;
  }
  return missing_element(object, index);
}

Value slice(const Value& object, const Value& begin, const Value& end, const Value& step) {
  check_is_defined(object);
  const auto size = length_of(object);
  const auto* owner = object.as<std::shared_ptr<Object>>();
  if (owner && (*owner)->has_elements()) throw Refused("slices of " + (*owner)->type() + " are not supported");
  const bool is_sliceable = text_of(object) || elements_of(object);
  const auto places = is_sliceable ? places_of(static_cast<std::int64_t>(*size), begin, end, step) : std::nullopt;
  if (!places) throw Refused("'" + type_name(object) + "' object has no such slice");
  if (text_of(object)) return text(encoded(taken(decoded(plain_text(object)), *places)));
  auto values = taken(*elements_of(object), *places);
  return object.is<List>() ? list(std::move(values)) : tuple(std::move(values));
}

}  // namespace llmtrain::jinja
