// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/macro.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/jinja/evaluator.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {

std::string Macro::repr() const {
  return text_.name.empty() ? "<Macro anonymous>" : "<Macro " + jinja::repr(std::string_view(text_.name)) + ">";
}

std::optional<Value> Macro::attribute(std::string_view name) {
  if (name == "name") return text_.name.empty() ? none() : text(text_.name);
  if (name == "caller") return boolean(text_.uses_caller);
  if (name == "catch_kwargs") return boolean(text_.uses_named);
  if (name == "catch_varargs") return boolean(text_.uses_positional);
  if (name != "arguments") return std::nullopt;
  std::vector<Value> names;
  for (const Parameter& parameter : text_.parameters) names.push_back(text(parameter.name));
  return list(std::move(names));
}

Value Macro::call(const Arguments& arguments) { return evaluator_.call_macro(text_, around_, arguments); }

// The arguments as names of the macro's scope, in the order that Jinja takes them in.
void Evaluator::bind_arguments(const MacroText& macro, Arguments& arguments, const ScopePointer& scope) {
  auto& named = arguments.named;
  const auto take = [&](std::string_view name) -> std::optional<Value> {
    const auto found = std::ranges::find(named, name, [](const auto& each) { return each.first; });
    if (found == named.end()) return std::nullopt;
    Value value = std::move(found->second);
    named.erase(found);
    return value;
  };
  const std::size_t count = macro.parameters.size();
  const std::size_t given = std::min(arguments.positional.size(), count);
  bool has_caller =
      given == count && std::ranges::find(macro.parameters, "caller", &Parameter::name) != macro.parameters.end();
  std::vector<const Parameter*> missing;
  for (std::size_t index = 0; index < count; ++index) {
    const Parameter& parameter = macro.parameters[index];
    auto value = index < given ? std::optional(arguments.positional[index]) : take(parameter.name);
    has_caller |= index >= given && parameter.name == "caller";
    if (!value) missing.push_back(&parameter);
    scope->set(parameter.name, value ? *value : undefined(fmt::format("'{}' is undefined", parameter.name)));
  }
  if (macro.uses_caller && !has_caller) {
    const auto caller = take("caller");
    scope->set("caller", caller && !caller->is<None>() ? *caller : undefined("No caller defined"));
  }
  if (macro.uses_named) {
    std::vector<std::pair<Value, Value>> pairs;
    for (const auto& [name, value] : named) pairs.emplace_back(text(name), value);
    scope->set("kwargs", dictionary(pairs));
  } else if (!named.empty()) {
    throw Refused(fmt::format("macro '{}' takes no keyword argument '{}'", macro.name, named[0].first));
  }
  if (macro.uses_positional) {
    const auto rest = arguments.positional.begin() + static_cast<std::ptrdiff_t>(given);
    scope->set("varargs", tuple({rest, arguments.positional.end()}));
  } else if (arguments.positional.size() > count) {
    throw Refused(fmt::format("macro '{}' takes not more than {} argument(s)", macro.name, count));
  }
  for (const Parameter* parameter : missing) {
    scope->set(parameter->name, parameter->otherwise
                                    ? evaluate(parameter->otherwise, scope)
                                    : undefined(fmt::format("parameter '{}' was not provided", parameter->name)));
  }
}

}  // namespace llmtrain::jinja
