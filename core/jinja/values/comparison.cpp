// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/comparison.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <optional>

#include "core/jinja/values/iteration.h"
#include "core/jinja/values/object.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {
namespace {

// long double holds every 64-bit integer and every double, so that comparisons of the two are exact.
std::optional<long double> number_of(const Value& value) {
  if (const auto* flag = value.as<bool>()) return *flag ? 1 : 0;
  if (const auto* integer = value.as<std::int64_t>()) return *integer;
  if (const auto* number = value.as<double>()) return *number;
  return std::nullopt;
}

bool entries_are_equal(const Entries& left, const Entries& right) {
  return left.pairs.size() == right.pairs.size() && std::ranges::all_of(left.pairs, [&](const auto& pair) {
           return std::ranges::any_of(right.pairs, [&](const auto& other) {
             return are_equal(pair.first, other.first) && are_equal(pair.second, other.second);
           });
         });
}

[[noreturn]] void refuse_order(std::string_view sign, const Value& left, const Value& right) {
  for (const Value* value : {&left, &right}) {
    if (const auto* missing = value->as<Undefined>()) throw Refused(*missing->why);
  }
  throw Refused(
      fmt::format("'{}' not supported between instances of '{}' and '{}'", sign, type_name(left), type_name(right)));
}

// How two sequences differ first: their elements there, or their lengths.
bool sequences_compare(std::string_view sign, const std::vector<Value>& left, const std::vector<Value>& right) {
  const auto [first, second] = std::ranges::mismatch(left, right, are_equal);
  if (first != left.end() && second != right.end()) return compares(sign, *first, *second);
  return compares(sign, integer_of_size(left.size()), integer_of_size(right.size()));
}

template <typename Type>
bool ordered(std::string_view sign, const Type& left, const Type& right) {
  if (sign == "<") return left < right;
  if (sign == "<=") return left <= right;
  if (sign == ">") return left > right;
  return left >= right;
}

}  // namespace

bool are_equal(const Value& left, const Value& right) {
  const auto first = number_of(left), second = number_of(right);
  if (first && second) return *first == *second;
  if (left.data.index() != right.data.index()) return false;
  if (const auto* text = text_of(left)) return *text == *text_of(right);
  if (const auto* elements = elements_of(left)) return std::ranges::equal(*elements, *elements_of(right), are_equal);
  if (const auto* dictionary = left.as<Dictionary>())
    return entries_are_equal(*dictionary->entries, *right.as<Dictionary>()->entries);
  if (const auto* object = left.as<std::shared_ptr<Object>>())
    return (*object)->equals(**right.as<std::shared_ptr<Object>>());
  return true;  // undefined values and none
}

bool compares(std::string_view sign, const Value& left, const Value& right) {
  if (sign == "==") return are_equal(left, right);
  if (sign == "!=") return !are_equal(left, right);
  const auto first = number_of(left), second = number_of(right);
  if (first && second) return ordered(sign, *first, *second);
  const bool are_alike = left.data.index() == right.data.index();
  if (are_alike && text_of(left)) return ordered(sign, *text_of(left), *text_of(right));
  if (are_alike && elements_of(left)) return sequences_compare(sign, *elements_of(left), *elements_of(right));
  refuse_order(sign, left, right);
}

bool is_less(const Value& left, const Value& right) { return compares("<", left, right); }

bool contains(const Value& container, const Value& element) {
  if (const auto* text = text_of(container)) {
    const auto* part = text_of(element);
    if (!part) {
      throw Refused(fmt::format("'in <string>' requires string as left operand, not {}", type_name(element)));
    }
    return text->find(*part) != std::string::npos;
  }
  if (const auto* dictionary = container.as<Dictionary>()) {
    check_is_hashable(element);
    return find(*dictionary, element) != nullptr;
  }
  if (!is_iterable(container))
    throw Refused(fmt::format("argument of type '{}' is not iterable", type_name(container)));
  const auto iterator = iterate(container);
  while (const auto each = iterator->next()) {
    if (are_equal(*each, element)) return true;
  }
  return false;
}

void check_is_hashable(const Value& value) {
  if (value.is<List>() || value.is<Dictionary>()) throw Refused("unhashable type: '" + type_name(value) + "'");
  if (const auto* tuple = value.as<Tuple>()) std::ranges::for_each(tuple->items->values, check_is_hashable);
}

}  // namespace llmtrain::jinja
