// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/filters/tests.h"

#include <algorithm>
#include <iterator>
#include <utility>

#include "core/jinja/filters/filters.h"
#include "core/jinja/functions/text_methods.h"
#include "core/jinja/values/arithmetic.h"
#include "core/jinja/values/comparison.h"
#include "core/jinja/values/iteration.h"
#include "core/jinja/values/object.h"
#include "core/jinja/values/python_text.h"

namespace llmtrain::jinja {
namespace {

void take_none(const Arguments& arguments) { const BoundArguments bound("the test", arguments, {}); }

Value take_one(const Arguments& arguments) {
  const BoundArguments bound("the test", arguments, {"other"}, 1);
  return *bound.get(0);
}

template <typename Type>
bool is_of(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  return value.is<Type>();
}

bool is_defined(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  return !value.is<Undefined>();
}

template <bool wanted>
bool is_flag(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  return value.is<bool>() && *value.as<bool>() == wanted;
}

bool is_number(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  return value.is<bool>() || value.is<std::int64_t>() || value.is<double>();
}

bool is_sequence(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  const auto* object = value.as<std::shared_ptr<Object>>();
  return object ? (*object)->has_elements() : length_of(value).has_value();
}

bool is_iterable_value(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  return is_iterable(value);
}

bool is_callable(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  const auto* object = value.as<std::shared_ptr<Object>>();
  return object ? (*object)->is_callable() : value.is<Undefined>();
}

bool is_divisible(const Value& value, const Value& by, std::int64_t rest) {
  return are_equal(calculate(Operator::modulo, value, by), integer(rest));
}

bool is_odd(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  return is_divisible(value, integer(2), 1);
}

bool is_even(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  return is_divisible(value, integer(2), 0);
}

bool is_divisible_by(const Value& value, const Arguments& arguments) {
  return is_divisible(value, take_one(arguments), 0);
}

bool is_lower(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  return is_lower_text(str(value));
}

bool is_upper(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  return is_upper_text(str(value));
}

bool is_escaped(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  return value.is<Text>() && value.as<Text>()->is_markup;
}

// Numbers and texts, which Python may or may not share, are the same where they are equal.
bool is_same(const Value& value, const Arguments& arguments) {
  const Value other = take_one(arguments);
  if (value.data.index() != other.data.index()) return false;
  if (const auto* list = value.as<List>()) return list->items == other.as<List>()->items;
  if (const auto* tuple = value.as<Tuple>()) return tuple->items == other.as<Tuple>()->items;
  if (const auto* dictionary = value.as<Dictionary>()) return dictionary->entries == other.as<Dictionary>()->entries;
  if (const auto* object = value.as<std::shared_ptr<Object>>()) return *object == *other.as<std::shared_ptr<Object>>();
  return are_equal(value, other);
}

bool is_in(const Value& value, const Arguments& arguments) { return contains(take_one(arguments), value); }

bool names_filter(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  check_is_hashable(value);
  return text_of(value) && find_filter(*text_of(value));
}

bool names_test(const Value& value, const Arguments& arguments) {
  take_none(arguments);
  check_is_hashable(value);
  return text_of(value) && find_test(*text_of(value));
}

bool is_equal(const Value& value, const Arguments& arguments) { return are_equal(value, take_one(arguments)); }
bool is_unequal(const Value& value, const Arguments& arguments) { return !are_equal(value, take_one(arguments)); }
bool is_greater(const Value& value, const Arguments& arguments) { return compares(">", value, take_one(arguments)); }
bool is_not_less(const Value& value, const Arguments& arguments) { return compares(">=", value, take_one(arguments)); }
bool is_lesser(const Value& value, const Arguments& arguments) { return compares("<", value, take_one(arguments)); }
bool is_not_more(const Value& value, const Arguments& arguments) { return compares("<=", value, take_one(arguments)); }

constexpr std::pair<std::string_view, Test> tests[] = {{"!=", is_unequal},
                                                       {"<", is_lesser},
                                                       {"<=", is_not_more},
                                                       {"==", is_equal},
                                                       {">", is_greater},
                                                       {">=", is_not_less},
                                                       {"boolean", is_of<bool>},
                                                       {"callable", is_callable},
                                                       {"defined", is_defined},
                                                       {"divisibleby", is_divisible_by},
                                                       {"eq", is_equal},
                                                       {"equalto", is_equal},
                                                       {"escaped", is_escaped},
                                                       {"even", is_even},
                                                       {"false", is_flag<false>},
                                                       {"filter", names_filter},
                                                       {"float", is_of<double>},
                                                       {"ge", is_not_less},
                                                       {"greaterthan", is_greater},
                                                       {"gt", is_greater},
                                                       {"in", is_in},
                                                       {"integer", is_of<std::int64_t>},
                                                       {"iterable", is_iterable_value},
                                                       {"le", is_not_more},
                                                       {"lessthan", is_lesser},
                                                       {"lower", is_lower},
                                                       {"lt", is_lesser},
                                                       {"mapping", is_of<Dictionary>},
                                                       {"ne", is_unequal},
                                                       {"none", is_of<None>},
                                                       {"number", is_number},
                                                       {"odd", is_odd},
                                                       {"sameas", is_same},
                                                       {"sequence", is_sequence},
                                                       {"string", is_of<Text>},
                                                       {"test", names_test},
                                                       {"true", is_flag<true>},
                                                       {"undefined", is_of<Undefined>},
                                                       {"upper", is_upper}};

}  // namespace

Test find_test(std::string_view name) {
  const auto* found = std::ranges::find(tests, name, [](const auto& each) { return each.first; });
  return found == std::end(tests) ? nullptr : found->second;
}

}  // namespace llmtrain::jinja
