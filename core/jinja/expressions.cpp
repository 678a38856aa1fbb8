// SPDX-License-Identifier: Apache-2.0
// What expressions are worth.
#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/jinja/evaluator.h"
#include "core/jinja/evaluator_level.h"
#include "core/jinja/filters/filters.h"
#include "core/jinja/filters/tests.h"
#include "core/jinja/functions/access.h"
#include "core/jinja/values/arithmetic.h"
#include "core/jinja/values/comparison.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"
#include "core/jinja/values/text.h"

namespace llmtrain::jinja {

Value Evaluator::evaluate(const ExpressionPointer& expression, const ScopePointer& scope) {
  const Level level(*this);
  spend(1);
  line_ = expression->line;
  return std::visit([&](const auto& node) { return compute(node, scope); }, expression->node);
}

Value Evaluator::evaluate_or_none(const ExpressionPointer& expression, const ScopePointer& scope) {
  return expression ? evaluate(expression, scope) : none();
}

std::vector<Value> Evaluator::evaluate_all(const std::vector<ExpressionPointer>& expressions,
                                           const ScopePointer& scope) {
  std::vector<Value> values;
  values.reserve(expressions.size());
  for (const auto& expression : expressions) values.push_back(evaluate(expression, scope));
  return values;
}

Arguments Evaluator::evaluate(const CallArguments& arguments, const ScopePointer& scope) {
  Arguments result{evaluate_all(arguments.positional, scope), {}};
  if (arguments.more_positional) {
    for (Value& each : all_of(evaluate(arguments.more_positional, scope))) result.positional.push_back(std::move(each));
  }
  for (const auto& [name, expression] : arguments.named) result.named.emplace_back(name, evaluate(expression, scope));
  if (!arguments.more_named) return result;
  const Value more = evaluate(arguments.more_named, scope);
  const auto* dictionary = more.as<Dictionary>();
  if (!dictionary) throw Refused("argument after ** must be a mapping, not " + type_name(more));
  for (const auto& [name, value] : dictionary->entries->pairs) {
    if (!text_of(name)) throw Refused("keywords must be strings");
    const auto known = std::ranges::find(result.named, *text_of(name), [](const auto& each) { return each.first; });
    if (known != result.named.end()) throw Refused("multiple values for keyword argument " + repr(name));
    result.named.emplace_back(*text_of(name), value);
  }
  return result;
}

Value Evaluator::compute(const Constant& node, const ScopePointer&) { return node.value; }

Value Evaluator::compute(const Name& node, const ScopePointer& scope) {
  if (const Value* value = scope->find(node.name)) return *value;
  const auto found = variables_.find(node.name);
  return found != variables_.end() ? found->second : undefined("'" + node.name + "' is undefined");
}

Value Evaluator::compute(const ListDisplay& node, const ScopePointer& scope) {
  return paid(list(evaluate_all(node.items, scope)));
}

Value Evaluator::compute(const TupleDisplay& node, const ScopePointer& scope) {
  return paid(tuple(evaluate_all(node.items, scope)));
}

Value Evaluator::compute(const DictionaryDisplay& node, const ScopePointer& scope) {
  std::vector<std::pair<Value, Value>> pairs;
  for (const auto& [key, value] : node.pairs) {
    Value first = evaluate(key, scope);
    pairs.emplace_back(std::move(first), evaluate(value, scope));
  }
  return dictionary(pairs);
}

Value Evaluator::compute(const Unary& node, const ScopePointer& scope) {
  const Value operand = evaluate(node.operand, scope);
  return node.sign == Sign::negative ? negated(operand) : unchanged(operand);
}

Value Evaluator::compute(const Binary& node, const ScopePointer& scope) {
  const Value left = evaluate(node.left, scope);
  const Value right = evaluate(node.right, scope);
  return paid(calculate(node.operation, left, right));
}

Value Evaluator::compute(const Concatenation& node, const ScopePointer& scope) {
  TextBuilder result;
  for (const Value& part : evaluate_all(node.parts, scope)) result.add(str(part));
  return paid(text(result.take()));
}

Value Evaluator::compute(const And& node, const ScopePointer& scope) {
  Value left = evaluate(node.left, scope);
  return is_true(left) ? evaluate(node.right, scope) : left;
}

Value Evaluator::compute(const Or& node, const ScopePointer& scope) {
  Value left = evaluate(node.left, scope);
  return is_true(left) ? left : evaluate(node.right, scope);
}

Value Evaluator::compute(const Not& node, const ScopePointer& scope) {
  return boolean(!is_true(evaluate(node.operand, scope)));
}

Value Evaluator::compute(const Comparison& node, const ScopePointer& scope) {
  Value left = evaluate(node.first, scope);
  for (const auto& [sign, expression] : node.others) {
    Value right = evaluate(expression, scope);
    const bool holds = sign == "in"       ? contains(right, left)
                       : sign == "not in" ? !contains(right, left)
                                          : compares(sign, left, right);
    if (!holds) return boolean(false);
    left = std::move(right);
  }
  return boolean(true);
}

Value Evaluator::compute(const Conditional& node, const ScopePointer& scope) {
  const int line = line_;
  if (is_true(evaluate(node.condition, scope))) return evaluate(node.then, scope);
  if (node.otherwise) return evaluate(node.otherwise, scope);
  return undefined(
      fmt::format("the inline if-expression on line {} evaluated to false and no else section was defined.", line));
}

Value Evaluator::compute(const Attribute& node, const ScopePointer& scope) {
  return attribute(evaluate(node.object, scope), node.name);
}

Value Evaluator::compute(const Item& node, const ScopePointer& scope) {
  const Value object = evaluate(node.object, scope);
  const auto* cut = std::get_if<Slice>(&node.index->node);
  if (!cut) return item(object, evaluate(node.index, scope));
  const Value begin = evaluate_or_none(cut->begin, scope);
  const Value end = evaluate_or_none(cut->end, scope);
  return paid(slice(object, begin, end, evaluate_or_none(cut->step, scope)));
}

Value Evaluator::compute(const Slice&, const ScopePointer&) {
  throw Refused("a slice beside other indices is not supported");
}

Value Evaluator::compute(const Call& node, const ScopePointer& scope) {
  const int line = line_;
  const Value function = evaluate(node.function, scope);
  const Arguments arguments = evaluate(node.arguments, scope);
  line_ = line;
  return call(function, arguments);
}

Value Evaluator::call(const Value& function, const Arguments& arguments) {
  if (const auto* missing = function.as<Undefined>()) throw Refused(*missing->why);
  const auto* callee = function.as<std::shared_ptr<Object>>();
  if (!callee) throw Refused("'" + type_name(function) + "' object is not callable");
  return paid((*callee)->call(arguments));
}

Value Evaluator::compute(const FilterUse& node, const ScopePointer& scope) {
  const int line = line_;
  const Filter filter = find_filter(node.name);
  if (!filter) throw Refused("No filter named " + repr(std::string_view(node.name)) + " found.");
  const Value input = node.input ? evaluate(node.input, scope) : filtered_text_;
  const Arguments arguments = evaluate(node.arguments, scope);
  line_ = line;
  return paid(filter(input, arguments));
}

Value Evaluator::compute(const TestUse& node, const ScopePointer& scope) {
  const int line = line_;
  const Test test = find_test(node.name);
  if (!test) throw Refused("No test named " + repr(std::string_view(node.name)) + " found.");
  const Value input = evaluate(node.input, scope);
  const Arguments arguments = evaluate(node.arguments, scope);
  line_ = line;
  return boolean(test(input, arguments));
}

}  // namespace llmtrain::jinja
