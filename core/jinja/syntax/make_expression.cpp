// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/syntax/make_expression.h"

#include <algorithm>

#include "core/jinja/syntax/template_error.h"

namespace llmtrain::jinja {
namespace {

constexpr int deepest_node = 200;

class DepthOfChildren {
 public:
  void operator()(const Constant&) {}
  void operator()(const Name&) {}
  void operator()(const ListDisplay& node) { add_all(node.items); }
  void operator()(const TupleDisplay& node) { add_all(node.items); }
  void operator()(const DictionaryDisplay& node) {
    for (const auto& [key, value] : node.pairs) {
      add(key);
      add(value);
    }
  }
  void operator()(const Unary& node) { add(node.operand); }
  void operator()(const Binary& node) { add_both(node); }
  void operator()(const Concatenation& node) { add_all(node.parts); }
  void operator()(const And& node) { add_both(node); }
  void operator()(const Or& node) { add_both(node); }
  void operator()(const Not& node) { add(node.operand); }
  void operator()(const Comparison& node) {
    add(node.first);
    for (const auto& [sign, value] : node.others) add(value);
  }
  void operator()(const Conditional& node) {
    add(node.condition);
    add(node.then);
    add(node.otherwise);
  }
  void operator()(const Attribute& node) { add(node.object); }
  void operator()(const Item& node) {
    add(node.object);
    add(node.index);
  }
  void operator()(const Slice& node) {
    add(node.begin);
    add(node.end);
    add(node.step);
  }
  void operator()(const Call& node) {
    add(node.function);
    add_arguments(node.arguments);
  }
  void operator()(const FilterUse& node) {
    add(node.input);
    add_arguments(node.arguments);
  }
  void operator()(const TestUse& node) {
    add(node.input);
    add_arguments(node.arguments);
  }

  int depth() const { return depth_; }

 private:
  void add(const ExpressionPointer& expression) {
    if (expression) depth_ = std::max(depth_, expression->depth);
  }
  void add_all(const std::vector<ExpressionPointer>& expressions) {
    for (const auto& expression : expressions) add(expression);
  }
  template <typename Node>
  void add_both(const Node& node) {
    add(node.left);
    add(node.right);
  }
  void add_arguments(const CallArguments& arguments) {
    add_all(arguments.positional);
    for (const auto& [name, value] : arguments.named) add(value);
    add(arguments.more_positional);
    add(arguments.more_named);
  }

  int depth_ = 0;
};

}  // namespace

ExpressionPointer make_expression(int line, decltype(Expression::node) node) {
  DepthOfChildren children;
  std::visit([&](const auto& each) { children(each); }, node);
  if (children.depth() >= deepest_node) throw TemplateError(line, "expressions are nested too deeply");
  auto expression = std::make_unique<Expression>();
  expression->line = line;
  expression->depth = children.depth() + 1;
  expression->node = std::move(node);
  return expression;
}

}  // namespace llmtrain::jinja
