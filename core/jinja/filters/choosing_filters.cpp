// SPDX-License-Identifier: Apache-2.0
// The filters that apply another filter or a test to each element.
#include "core/jinja/filters/element_getter.h"
#include "core/jinja/filters/filter_functions.h"
#include "core/jinja/filters/tests.h"
#include "core/jinja/functions/generator.h"
#include "core/jinja/values/iteration.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja::filter {
namespace {

using Change = std::function<Value(const Value&)>;
using Choose = std::function<bool(const Value&)>;

const std::string& name_in(const Value& value) {
  const std::string* name = text_of(value);
  if (!name) throw Refused("the name of a filter or test is a text, not " + type_name(value));
  return *name;
}

Change change_of(Arguments arguments) {
  if (arguments.positional.empty()) {
    Value attribute = none(), otherwise = none();
    bool has_attribute = false;
    for (const auto& [name, value] : arguments.named) has_attribute |= name == "attribute";
    if (!has_attribute) throw Refused("map requires a filter argument");
    for (const auto& [name, value] : arguments.named) {
      if (name != "attribute" && name != "default") throw Refused("Unexpected keyword argument " + repr(name));
      (name == "attribute" ? attribute : otherwise) = value;
    }
    return [getter = ElementGetter(attribute, otherwise)](const Value& each) { return getter.get(each); };
  }
  const std::string name = name_in(arguments.positional[0]);
  const Filter filter = find_filter(name);
  if (!filter) throw Refused("No filter named " + repr(name) + ".");
  arguments.positional.erase(arguments.positional.begin());
  return [filter, arguments](const Value& each) { return filter(each, arguments); };
}

Choose choose_of(Arguments arguments, bool looks_at_attribute) {
  Value attribute = none();
  if (looks_at_attribute) {
    if (arguments.positional.empty()) throw Refused("Missing parameter for attribute name");
    attribute = arguments.positional[0];
    arguments.positional.erase(arguments.positional.begin());
  }
  const ElementGetter getter(attribute);
  if (arguments.positional.empty()) return [getter](const Value& each) { return is_true(getter.get(each)); };
  const std::string name = name_in(arguments.positional[0]);
  const Test test = find_test(name);
  if (!test) throw Refused("No test named " + repr(name) + ".");
  arguments.positional.erase(arguments.positional.begin());
  return [getter, test, arguments](const Value& each) { return test(getter.get(each), arguments); };
}

// Looked up when the first element is asked for, as a generator function does.
struct Started {
  std::unique_ptr<Iterator> iterator;
  Choose choose;
};

Value chosen(const Value& input, const Arguments& arguments, bool keeps, bool looks_at_attribute) {
  auto started = std::make_shared<Started>();
  return generator(depth_of(input), [=]() -> std::optional<Value> {
    if (!started->iterator) {
      if (!is_true(input)) return std::nullopt;
      started->choose = choose_of(arguments, looks_at_attribute);
      started->iterator = iterate(input);
    }
    while (auto each = started->iterator->next()) {
      if (started->choose(*each) == keeps) return each;
    }
    return std::nullopt;
  });
}

}  // namespace

Value map(const Value& input, const Arguments& arguments) {
  auto change = std::make_shared<Change>();
  auto iterator = std::make_shared<std::unique_ptr<Iterator>>();
  return generator(depth_of(input), [=]() -> std::optional<Value> {
    if (!*iterator) {
      if (!is_true(input)) return std::nullopt;
      *change = change_of(arguments);
      *iterator = iterate(input);
    }
    const auto each = (*iterator)->next();
    return each ? std::optional((*change)(*each)) : std::nullopt;
  });
}

Value select(const Value& input, const Arguments& arguments) { return chosen(input, arguments, true, false); }
Value reject(const Value& input, const Arguments& arguments) { return chosen(input, arguments, false, false); }
Value selectattr(const Value& input, const Arguments& arguments) { return chosen(input, arguments, true, true); }
Value rejectattr(const Value& input, const Arguments& arguments) { return chosen(input, arguments, false, true); }

}  // namespace llmtrain::jinja::filter
