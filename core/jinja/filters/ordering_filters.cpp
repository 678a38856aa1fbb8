// SPDX-License-Identifier: Apache-2.0
// The filters that put elements in order.
#include <algorithm>

#include "core/jinja/filters/element_getter.h"
#include "core/jinja/filters/filter_functions.h"
#include "core/jinja/filters/group.h"
#include "core/jinja/functions/generator.h"
#include "core/jinja/values/comparison.h"
#include "core/jinja/values/iteration.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja::filter {
namespace {

struct Keyed {
  Value key, value;
};

// Elements that compare alike keep their order, also from the last to the first.
void put_in_order(std::vector<Keyed>& elements, bool reverse) {
  if (reverse) std::ranges::reverse(elements);
  std::ranges::stable_sort(elements, is_less, &Keyed::key);
  if (reverse) std::ranges::reverse(elements);
}

std::vector<Value> values_of(std::vector<Keyed> elements) {
  std::vector<Value> values;
  for (Keyed& each : elements) values.push_back(std::move(each.value));
  return values;
}

// Several paths with commas between them; what is compared is the list of what lies there.
std::vector<ElementGetter> getters_of(const Value& attribute) {
  std::vector<ElementGetter> getters;
  const std::string* paths = text_of(attribute);
  if (!paths) return {ElementGetter(attribute)};
  for (std::size_t begin = 0; begin <= paths->size();) {
    const std::size_t end = std::min(paths->find(',', begin), paths->size());
    getters.emplace_back(text(paths->substr(begin, end - begin)));
    begin = end + 1;
  }
  return getters;
}

Value argument_of(const BoundArguments& bound, std::size_t parameter) {
  return bound.get(parameter) ? *bound.get(parameter) : none();
}

Value extreme(const Value& input, const Arguments& arguments, std::string_view sign) {
  const BoundArguments bound("min", arguments, {"case_sensitive", "attribute"});
  const bool is_case_sensitive = bound.flag(0, false);
  const ElementGetter getter(argument_of(bound, 1));
  std::optional<Keyed> best;
  for (const Value& each : all_of(input)) {
    const Value found = getter.get(each);
    const Value key = is_case_sensitive ? found : without_case(found);
    if (!best || compares(sign, key, best->key)) best = Keyed{key, each};
  }
  return best ? best->value : undefined("No aggregated item, sequence was empty.");
}

}  // namespace

Value sort(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("sort", arguments, {"reverse", "case_sensitive", "attribute"});
  const bool is_case_sensitive = bound.flag(1, false);
  const auto getters = getters_of(argument_of(bound, 2));
  std::vector<Keyed> elements;
  for (const Value& each : all_of(input)) {
    std::vector<Value> keys;
    for (const ElementGetter& getter : getters) {
      const Value found = getter.get(each);
      keys.push_back(is_case_sensitive ? found : without_case(found));
    }
    elements.push_back({jinja::list(std::move(keys)), each});
  }
  put_in_order(elements, bound.flag(0, false));
  return jinja::list(values_of(std::move(elements)));
}

Value dictsort(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("dictsort", arguments, {"case_sensitive", "by", "reverse"});
  const bool is_case_sensitive = bound.flag(0, false);
  const std::string by = bound.text(1, "key");
  if (by != "key" && by != "value") throw Refused("You can only sort by either \"key\" or \"value\"");
  const auto* dictionary = input.as<Dictionary>();
  if (!dictionary) throw Refused("dictsort() takes a dictionary, not " + type_name(input));
  std::vector<Keyed> elements;
  for (const auto& [key, value] : dictionary->entries->pairs) {
    const Value& sorted_by = by == "key" ? key : value;
    elements.push_back({is_case_sensitive ? sorted_by : without_case(sorted_by), tuple({key, value})});
  }
  put_in_order(elements, bound.flag(2, false));
  return jinja::list(values_of(std::move(elements)));
}

Value groupby(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("groupby", arguments, {"attribute", "default", "case_sensitive"}, 1);
  const ElementGetter getter(*bound.get(0), argument_of(bound, 1));
  const bool is_case_sensitive = bound.flag(2, false);
  std::vector<Keyed> elements;
  for (const Value& each : all_of(input)) {
    const Value found = getter.get(each);
    elements.push_back({is_case_sensitive ? found : without_case(found), each});
  }
  put_in_order(elements, false);
  std::vector<Value> groups;
  for (std::size_t begin = 0; begin < elements.size();) {
    std::vector<Value> group;
    const Value& key = elements[begin].key;
    std::size_t end = begin;
    for (; end < elements.size() && are_equal(elements[end].key, key); ++end) group.push_back(elements[end].value);
    if (end == begin) ++end;  // NaN is not even equal to itself
    groups.push_back(make_group(getter.get(elements[begin].value), jinja::list(std::move(group))));
    begin = end;
  }
  return jinja::list(std::move(groups));
}

Value min(const Value& input, const Arguments& arguments) { return extreme(input, arguments, "<"); }
Value max(const Value& input, const Arguments& arguments) { return extreme(input, arguments, ">"); }

Value unique(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("unique", arguments, {"case_sensitive", "attribute"});
  const ElementGetter getter(argument_of(bound, 1));
  auto iterator = std::make_shared<std::unique_ptr<Iterator>>();
  auto seen = std::make_shared<std::vector<Value>>();
  return generator(depth_of(input), [=, is_case_sensitive = bound.flag(0, false)]() -> std::optional<Value> {
    if (!*iterator) *iterator = iterate(input);
    while (auto each = (*iterator)->next()) {
      const Value found = getter.get(*each);
      const Value key = is_case_sensitive ? found : without_case(found);
      check_is_hashable(key);
      if (std::ranges::any_of(*seen, [&](const Value& known) { return are_equal(known, key); })) continue;
      seen->push_back(key);
      return each;
    }
    return std::nullopt;
  });
}

}  // namespace llmtrain::jinja::filter
