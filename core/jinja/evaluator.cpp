// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/evaluator.h"

#include <algorithm>

#include "core/jinja/evaluator_level.h"
#include "core/jinja/functions/native_function.h"
#include "core/jinja/functions/range.h"
#include "core/jinja/macro.h"
#include "core/jinja/values/iteration.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {
namespace {

std::string formatted_time(const std::string& format, const std::tm& time) {
  if (format.empty()) return "";
  std::string result(format.size() * 4 + 256, '\0');
  result.resize(std::strftime(result.data(), result.size(), format.c_str(), &time));
  return result;
}

Value raise_exception(const Arguments& arguments) {
  const BoundArguments bound("raise_exception", arguments, {"message"}, 1);
  throw Refused(str(*bound.get(0)));
}

// dict() of pairs or of another dictionary, and of named arguments.
std::vector<std::pair<Value, Value>> pairs_of(const Arguments& arguments) {
  if (arguments.positional.size() > 1) throw Refused("dict expected at most 1 argument");
  std::vector<std::pair<Value, Value>> pairs;
  if (!arguments.positional.empty()) {
    const Value& given = arguments.positional[0];
    if (given.is<Undefined>()) throw Refused(*given.as<Undefined>()->why);
    if (const auto* dictionary = given.as<Dictionary>()) {
      pairs = dictionary->entries->pairs;
    } else {
      for (const Value& each : all_of(given)) {
        const auto pair = all_of(each);
        if (pair.size() != 2) throw Refused("dictionary update sequence element has not two values");
        pairs.emplace_back(pair[0], pair[1]);
      }
    }
  }
  for (const auto& [name, value] : arguments.named) pairs.emplace_back(text(name), value);
  return pairs;
}

}  // namespace

Evaluator::~Evaluator() {
  for (const auto& each : namespaces_) each->clear();
  for (const auto& scope : captured_scopes_) scope->names.clear();
}

Rendered Evaluator::render(const Statements& statements, const Json& variables) {
  try {
    add_globals();
    for (const auto& [name, value] : variables.items()) variables_.insert_or_assign(name, value_of(value));
    execute(statements, scope_within(nullptr));
  } catch (const Refused& refused) {
    throw TemplateError(line_, refused.what());
  }
  return {std::move(output_), std::move(generations_), has_lost_generation_};
}

void Evaluator::spend(std::size_t steps) {
  spent_ += steps;
  if (spent_ > options_.steps) throw Refused("the template takes too many steps");
}

const Value& Evaluator::paid(const Value& value) {
  if (const auto* text = text_of(value)) {
    spend(text->size() / 64);
  } else if (const auto* elements = elements_of(value)) {
    spend(elements->size());
  } else if (const auto* dictionary = value.as<Dictionary>()) {
    spend(dictionary->entries->pairs.size());
  }
  return value;
}

void Evaluator::write(const std::string& text) {
  if (text.size() > longest_text - output_.size()) throw Refused("the text is longer than 256 MiB");
  output_ += text;
}

void Evaluator::add_globals() {
  const auto add = [&](const std::string& name, NativeFunction::Body body) {
    variables_.insert_or_assign(name, object(std::make_shared<NativeFunction>(name, std::move(body))));
  };
  add("range", make_range);
  add("dict", [](const Arguments& arguments) { return dictionary(pairs_of(arguments)); });
  add("namespace", [this](const Arguments& arguments) { return make_namespace(arguments); });
  add("raise_exception", raise_exception);
  add("strftime_now", [this](const Arguments& arguments) {
    const BoundArguments bound("strftime_now", arguments, {"format"}, 1);
    if (!options_.now) throw Refused("the template writes the date (strftime_now), and none is given");
    return text(formatted_time(bound.text(0, ""), *options_.now));
  });
  for (const char* name : {"cycler", "joiner", "lipsum"})
    add(name, [name](const Arguments&) -> Value { throw Refused(std::string(name) + "() is not supported"); });
}

Value Evaluator::make_namespace(const Arguments& arguments) {
  auto made = std::make_shared<NameSpace>();
  for (const auto& [name, value] : pairs_of(arguments)) {
    if (!text_of(name)) throw Refused("the names in a namespace are texts");
    made->set(*text_of(name), value);
  }
  namespaces_.push_back(made);
  return object(std::move(made));
}

Value Evaluator::make_macro(const MacroText& macro, const ScopePointer& scope) {
  if (captured_scopes_.empty() || captured_scopes_.back() != scope) captured_scopes_.push_back(scope);
  return object(std::make_shared<Macro>(*this, macro, scope));
}

Value Evaluator::call_macro(const MacroText& macro, const ScopePointer& around, Arguments arguments) {
  const Level level(*this);
  const auto scope = scope_within(around);
  bind_arguments(macro, arguments, scope);
  Capture capture(*this);
  execute(macro.body, scope);
  return paid(text(capture.take()));
}

}  // namespace llmtrain::jinja
