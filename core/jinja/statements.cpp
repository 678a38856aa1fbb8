// SPDX-License-Identifier: Apache-2.0
// What statements do.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <functional>
#include <utility>

#include "core/jinja/evaluator.h"
#include "core/jinja/evaluator_level.h"
#include "core/jinja/values/iteration.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {
namespace {

// The items for which a loop's condition holds, found when the loop asks for them.
class ChosenItems : public Iterator {
 public:
  ChosenItems(std::unique_ptr<Iterator> items, std::function<bool(const Value&)> is_chosen)
      : items_(std::move(items)), is_chosen_(std::move(is_chosen)) {}

  std::optional<Value> next() override {
    while (auto each = items_->next()) {
      if (is_chosen_(*each)) return each;
    }
    return std::nullopt;
  }

 private:
  std::unique_ptr<Iterator> items_;
  std::function<bool(const Value&)> is_chosen_;
};

}  // namespace

Evaluator::Flow Evaluator::execute(const Statements& statements, const ScopePointer& scope) {
  const Level level(*this);
  for (const auto& statement : statements) {
    spend(1);
    line_ = statement->line;
    const Flow flow = std::visit([&](const auto& node) { return run(node, scope); }, statement->node);
    if (flow != Flow::onward) return flow;
  }
  return Flow::onward;
}

Evaluator::Flow Evaluator::run(const Output& node, const ScopePointer& scope) {
  for (const auto& expression : node.values) {
    const Value value = evaluate(expression, scope);
    text_of(value) ? write(*text_of(value)) : write(str(value));
  }
  return Flow::onward;
}

Evaluator::Flow Evaluator::run(const Data& node, const ScopePointer&) {
  write(node.text);
  return Flow::onward;
}

std::unique_ptr<Iterator> Evaluator::chosen_items(const For& node, const Value& items, const ScopePointer& scope) {
  auto all = iterate(items);
  if (!node.condition) return all;
  return std::make_unique<ChosenItems>(std::move(all), [this, &node, scope](const Value& each) {
    const auto inner = scope_within(scope);
    assign(node.target, each, inner);
    return is_true(evaluate(node.condition, inner));
  });
}

Evaluator::Flow Evaluator::run(const For& node, const ScopePointer& scope) {
  const Value items = evaluate(node.iterable, scope);
  // Jinja collects what a recursive loop writes.
  captures_ += node.is_recursive ? 1 : 0;
  const Flow flow = run_loop(node, items, 0, scope);
  captures_ -= node.is_recursive ? 1 : 0;
  return flow;
}

// What is left by "break" in the part behind {% else %} is the loop around this one.
Evaluator::Flow Evaluator::run_loop(const For& node, const Value& items, std::int64_t depth,
                                    const ScopePointer& scope) {
  Loop::Recurse recurse;
  if (node.is_recursive) {
    recurse = [this, &node, scope](const Value& inner_items, std::int64_t inner_depth) {
      Capture capture(*this);
      run_loop(node, inner_items, inner_depth, scope);
      return text(capture.take());
    };
  }
  const auto length = node.condition ? std::nullopt : length_of(items);
  const auto loop = std::make_shared<Loop>(chosen_items(node, items, scope), length, depth, std::move(recurse));
  bool has_finished_one = false;
  while (loop->advance()) {
    const auto inner = scope_within(scope);
    inner->set("loop", object(loop));
    assign(node.target, loop->item(), inner);
    const Flow flow = execute(node.body, inner);
    if (flow == Flow::leave_loop) break;
    has_finished_one |= flow == Flow::onward;
  }
  // In Jinja the other part is also written where every item was left by "break" or "continue".
  return has_finished_one ? Flow::onward : execute(node.otherwise, scope_within(scope));
}

Evaluator::Flow Evaluator::run(const If& node, const ScopePointer& scope) {
  for (const auto& [condition, body] : node.branches) {
    if (is_true(evaluate(condition, scope))) return execute(body, scope);
  }
  return execute(node.otherwise, scope);
}

void Evaluator::assign(const Target& target, const Value& value, const ScopePointer& scope) {
  if (target.is_tuple) {
    if (!is_iterable(value) || value.is<Undefined>())
      throw Refused("cannot unpack a value of type " + type_name(value));
    const auto values = all_of(value);
    if (values.size() != target.parts.size()) {
      throw Refused(fmt::format("{} values for {} names", values.size(), target.parts.size()));
    }
    for (std::size_t index = 0; index < values.size(); ++index) assign(target.parts[index], values[index], scope);
  } else if (target.attribute) {
    const Value* owner = scope->find(target.name);
    const auto* found = owner ? owner->as<std::shared_ptr<Object>>() : nullptr;
    auto* name_space = found ? dynamic_cast<NameSpace*>(found->get()) : nullptr;
    if (!name_space) throw Refused("cannot assign attribute on non-namespace object");
    name_space->set(*target.attribute, value);
  } else {
    scope->set(target.name, value);
  }
}

Evaluator::Flow Evaluator::run(const Set& node, const ScopePointer& scope) {
  assign(node.target, evaluate(node.value, scope), scope);
  return Flow::onward;
}

Value Evaluator::filtered(const ExpressionPointer& filter, const Value& text, const ScopePointer& scope) {
  if (!filter) return text;
  const Value outer = std::exchange(filtered_text_, text);
  Value result = evaluate(filter, scope);
  filtered_text_ = outer;
  return result;
}

template <class Node, class Use>
Evaluator::Flow Evaluator::run_captured(const Node& node, const ScopePointer& scope, const Use& use) {
  const auto inner = scope_within(scope);
  Value value;
  {
    Capture capture(*this);
    const Flow flow = execute(node.body, inner);
    if (flow != Flow::onward) return flow;
    value = text(capture.take());
  }
  use(filtered(node.filter, paid(value), inner));
  return Flow::onward;
}

Evaluator::Flow Evaluator::run(const SetBlock& node, const ScopePointer& scope) {
  return run_captured(node, scope, [&](const Value& value) { assign(node.target, value, scope); });
}

Evaluator::Flow Evaluator::run(const MacroDefinition& node, const ScopePointer& scope) {
  scope->set(node.macro.name, make_macro(node.macro, scope));
  return Flow::onward;
}

// Unlike an expression's value, what a block makes is not turned into a text.
void Evaluator::write_block(const Value& value) {
  if (!text_of(value)) throw Refused("a block makes a value of type " + type_name(value) + " instead of a text");
  write(*text_of(value));
}

Evaluator::Flow Evaluator::run(const CallBlock& node, const ScopePointer& scope) {
  const auto& call_node = std::get<Call>(node.call->node);
  const Value function = evaluate(call_node.function, scope);
  Arguments arguments = evaluate(call_node.arguments, scope);
  arguments.named.emplace_back("caller", make_macro(node.caller, scope));
  write_block(call(function, arguments));
  return Flow::onward;
}

Evaluator::Flow Evaluator::run(const FilterBlock& node, const ScopePointer& scope) {
  return run_captured(node, scope, [&](const Value& value) { write_block(value); });
}

Evaluator::Flow Evaluator::run(const With& node, const ScopePointer& scope) {
  const auto inner = scope_within(scope);
  for (const auto& [target, value] : node.values) assign(target, evaluate(value, scope), inner);
  return execute(node.body, inner);
}

Evaluator::Flow Evaluator::run(const Generation& node, const ScopePointer& scope) {
  const std::size_t begin = output_.size();
  const bool is_lost = captures_ > 0;
  ++captures_;  // a tag within this one is lost, as it is in transformers
  execute(node.body, scope_within(scope));
  --captures_;
  if (is_lost) {
    has_lost_generation_ = true;
  } else {
    generations_.emplace_back(begin, output_.size());
  }
  return Flow::onward;
}

Evaluator::Flow Evaluator::run(const Break&, const ScopePointer&) { return Flow::leave_loop; }

Evaluator::Flow Evaluator::run(const Continue&, const ScopePointer&) { return Flow::next_item; }

}  // namespace llmtrain::jinja
