// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <functional>
#include <utility>

#include "core/jinja/filters/element_getter.h"
#include "core/jinja/filters/filter_functions.h"
#include "core/jinja/functions/access.h"
#include "core/jinja/functions/generator.h"
#include "core/jinja/values/arithmetic.h"
#include "core/jinja/values/iteration.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja::filter {
namespace {

Value argument_or_none(const BoundArguments& bound, std::size_t parameter) {
  return bound.get(parameter) ? *bound.get(parameter) : none();
}

// Makes the lists when the first is asked for, as a generator function does.
Value generator_of_lists(const Value& input, std::function<std::vector<Value>(const std::vector<Value>&)> make) {
  auto iterator = std::make_shared<std::unique_ptr<Iterator>>();
  return generator(depth_of(input) + 2, [input, iterator, make = std::move(make)] {
    if (!*iterator) *iterator = iterator_over(make(all_of(input)));
    return (*iterator)->next();
  });
}

}  // namespace

Value attr(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("attr", arguments, {"name"}, 1);
  if (const auto* missing = input.as<Undefined>()) throw Refused(*missing->why);
  const std::string name = bound.text(0, "");
  const auto found = own_attribute(input, name);
  return found ? *found : undefined("'" + type_name(input) + " object' has no attribute " + repr(name));
}

Value batch(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("batch", arguments, {"linecount", "fill_with"}, 1);
  const std::int64_t size = bound.integer(0, 0);
  return generator_of_lists(input, [size, fill = argument_or_none(bound, 1)](const std::vector<Value>& values) {
    std::vector<Value> lists, line;
    for (const Value& value : values) {
      if (static_cast<std::int64_t>(line.size()) == size) lists.push_back(jinja::list(std::exchange(line, {})));
      line.push_back(value);
    }
    if (line.empty()) return lists;
    if (size > 1000000) throw Refused("batch() of more than a million");
    while (!fill.is<None>() && static_cast<std::int64_t>(line.size()) < size) line.push_back(fill);
    lists.push_back(jinja::list(std::move(line)));
    return lists;
  });
}

Value slice(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("slice", arguments, {"slices", "fill_with"}, 1);
  const std::int64_t slices = bound.integer(0, 0);
  return generator_of_lists(input, [slices, fill = argument_or_none(bound, 1)](const std::vector<Value>& values) {
    if (slices == 0) throw Refused("integer division or modulo by zero");
    if (slices > 1000000) throw Refused("slice() into more than a million");
    std::vector<Value> lists;
    const auto size = static_cast<std::int64_t>(values.size());
    for (std::int64_t index = 0, begin = 0; index < slices; ++index) {
      const bool is_longer = index < size % slices;
      const std::int64_t end = begin + size / slices + (is_longer ? 1 : 0);
      std::vector<Value> part(values.begin() + begin, values.begin() + end);
      if (!fill.is<None>() && !is_longer) part.push_back(fill);
      lists.push_back(jinja::list(std::move(part)));
      begin = end;
    }
    return lists;
  });
}

Value default_(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("default", arguments, {"default_value", "boolean"});
  const bool is_replaced = input.is<Undefined>() || (bound.flag(1, false) && !is_true(input));
  if (!is_replaced) return input;
  return bound.get(0) ? *bound.get(0) : text("");
}

Value first(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("first", arguments, {});
  const auto value = iterate(input)->next();
  return value ? *value : undefined("No first item, sequence was empty.");
}

Value last(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("last", arguments, {});
  const Value nothing = undefined("No last item, sequence was empty.");
  if (input.is<Undefined>()) return nothing;
  const auto iterator = iterate_backwards(input);
  if (!iterator) throw Refused("'" + type_name(input) + "' object is not reversible");
  const auto value = iterator->next();
  return value ? *value : nothing;
}

Value items(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("items", arguments, {});
  return generator_of_lists(input.is<Dictionary>() || input.is<Undefined>() ? jinja::list({}) : input,
                            [input](const std::vector<Value>&) {
                              std::vector<Value> pairs;
                              if (input.is<Undefined>()) return pairs;
                              const auto* dictionary = input.as<Dictionary>();
                              if (!dictionary) throw Refused("Can only get item pairs from a mapping.");
                              for (const auto& [key, value] : dictionary->entries->pairs)
                                pairs.push_back(tuple({key, value}));
                              return pairs;
                            });
}

Value join(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("join", arguments, {"d", "attribute"});
  const std::string between = bound.get(0) ? str(*bound.get(0)) : "";
  const ElementGetter getter(argument_or_none(bound, 1));
  TextBuilder result;
  bool is_first = true;
  for (const Value& each : all_of(input)) {
    if (!std::exchange(is_first, false)) result.add(between);
    result.add(str(getter.get(each)));
  }
  return text(result.take());
}

Value length(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("length", arguments, {}, 0, false);
  const auto size = length_of(input);
  if (!size) throw Refused("object of type '" + type_name(input) + "' has no len()");
  return integer_of_size(*size);
}

Value list(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("list", arguments, {});
  return jinja::list(all_of(input));
}

Value reverse(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("reverse", arguments, {});
  if (text_of(input)) {
    std::u32string characters = decoded(plain_text(input));
    std::ranges::reverse(characters);
    return text(encoded(characters));
  }
  if (input.is<Undefined>()) return generator(1, iterator_over({}), "reversed");
  if (auto iterator = iterate_backwards(input))
    return generator(depth_of(input), std::move(iterator), type_name(input) + "_reverseiterator");
  std::vector<Value> values = all_of(input);
  std::ranges::reverse(values);
  return jinja::list(std::move(values));
}

Value sum(const Value& input, const Arguments& arguments) {
  const BoundArguments bound("sum", arguments, {"attribute", "start"});
  const ElementGetter getter(argument_or_none(bound, 0));
  Value total = bound.get(1) ? *bound.get(1) : integer(0);
  if (text_of(total)) throw Refused("sum() can't sum strings [use ''.join(seq) instead]");
  for (const Value& each : all_of(input)) total = calculate(Operator::add, total, getter.get(each));
  return total;
}

}  // namespace llmtrain::jinja::filter
