// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "core/jinja/loop.h"
#include "core/jinja/name_space.h"
#include "core/jinja/scope.h"
#include "core/jinja/syntax/tree.h"
#include "core/jinja/template.h"
#include "core/jinja/values/arguments.h"

namespace llmtrain::jinja {

// Renders one template once.
class Evaluator {
 public:
  explicit Evaluator(const RenderOptions& options) : options_(options) {}
  ~Evaluator();
  Evaluator(const Evaluator&) = delete;
  Evaluator& operator=(const Evaluator&) = delete;

  Rendered render(const Statements& statements, const Json& variables);

  // The text of a macro for these arguments; `around` is where it was defined.
  Value call_macro(const MacroText& macro, const ScopePointer& around, Arguments arguments);

 private:
  enum class Flow { onward, leave_loop, next_item };

  // Counts a level of what is computed within what, and refuses too many.
  class Level;
  // While it lives, what is written goes into a text of its own.
  class Capture;

  Flow execute(const Statements& statements, const ScopePointer& scope);
  Flow run(const Output& node, const ScopePointer& scope);
  Flow run(const Data& node, const ScopePointer& scope);
  Flow run(const For& node, const ScopePointer& scope);
  Flow run(const If& node, const ScopePointer& scope);
  Flow run(const Set& node, const ScopePointer& scope);
  Flow run(const SetBlock& node, const ScopePointer& scope);
  Flow run(const MacroDefinition& node, const ScopePointer& scope);
  Flow run(const CallBlock& node, const ScopePointer& scope);
  Flow run(const FilterBlock& node, const ScopePointer& scope);
  Flow run(const With& node, const ScopePointer& scope);
  Flow run(const Generation& node, const ScopePointer& scope);
  Flow run(const Break& node, const ScopePointer& scope);
  Flow run(const Continue& node, const ScopePointer& scope);
  Flow run_loop(const For& node, const Value& items, std::int64_t depth, const ScopePointer& scope);
  std::unique_ptr<Iterator> chosen_items(const For& node, const Value& items, const ScopePointer& scope);
  void assign(const Target& target, const Value& value, const ScopePointer& scope);
  void write(const std::string& text);
  void write_block(const Value& value);
  // Hands the text of the node's body to `use`, through the node's filter, unless the body is left early.
  template <class Node, class Use>
  Flow run_captured(const Node& node, const ScopePointer& scope, const Use& use);
  Value filtered(const ExpressionPointer& filter, const Value& text, const ScopePointer& scope);
  Value make_macro(const MacroText& macro, const ScopePointer& scope);
  void bind_arguments(const MacroText& macro, Arguments& arguments, const ScopePointer& scope);

  Value evaluate(const ExpressionPointer& expression, const ScopePointer& scope);
  Value compute(const Constant& node, const ScopePointer& scope);
  Value compute(const Name& node, const ScopePointer& scope);
  Value compute(const ListDisplay& node, const ScopePointer& scope);
  Value compute(const TupleDisplay& node, const ScopePointer& scope);
  Value compute(const DictionaryDisplay& node, const ScopePointer& scope);
  Value compute(const Unary& node, const ScopePointer& scope);
  Value compute(const Binary& node, const ScopePointer& scope);
  Value compute(const Concatenation& node, const ScopePointer& scope);
  Value compute(const And& node, const ScopePointer& scope);
  Value compute(const Or& node, const ScopePointer& scope);
  Value compute(const Not& node, const ScopePointer& scope);
  Value compute(const Comparison& node, const ScopePointer& scope);
  Value compute(const Conditional& node, const ScopePointer& scope);
  Value compute(const Attribute& node, const ScopePointer& scope);
  Value compute(const Item& node, const ScopePointer& scope);
  Value compute(const Slice& node, const ScopePointer& scope);
  Value compute(const Call& node, const ScopePointer& scope);
  Value compute(const FilterUse& node, const ScopePointer& scope);
  Value compute(const TestUse& node, const ScopePointer& scope);
  Value evaluate_or_none(const ExpressionPointer& expression, const ScopePointer& scope);
  std::vector<Value> evaluate_all(const std::vector<ExpressionPointer>& expressions, const ScopePointer& scope);
  Arguments evaluate(const CallArguments& arguments, const ScopePointer& scope);
  Value call(const Value& function, const Arguments& arguments);

  void add_globals();
  Value make_namespace(const Arguments& arguments);
  void spend(std::size_t steps);
  // For what a value that was just made takes.
  const Value& paid(const Value& value);

  const RenderOptions& options_;
  std::map<std::string, Value, std::less<>> variables_;  // the template's and the globals that they do not hide
  std::string output_;
  std::vector<std::pair<std::size_t, std::size_t>> generations_;
  bool has_lost_generation_ = false;
  int captures_ = 0;  // that are under way
  int level_ = 0;
  int line_ = 1;  // of what is being computed
  std::size_t spent_ = 0;
  Value filtered_text_;
  // What may hold itself: emptied at the end.
  std::vector<std::shared_ptr<NameSpace>> namespaces_;
  std::vector<ScopePointer> captured_scopes_;
};

}  // namespace llmtrain::jinja
