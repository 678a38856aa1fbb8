// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "core/jinja/values/arithmetic.h"
#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// What a template says, made once by parse() and never changed.

struct Expression;
struct Statement;
using ExpressionPointer = std::unique_ptr<const Expression>;
using Statements = std::vector<std::unique_ptr<const Statement>>;

struct Constant {
  Value value;
};
struct Name {
  std::string name;
};
struct ListDisplay {
  std::vector<ExpressionPointer> items;
};
struct TupleDisplay {
  std::vector<ExpressionPointer> items;
};
struct DictionaryDisplay {
  std::vector<std::pair<ExpressionPointer, ExpressionPointer>> pairs;
};
enum class Sign { negative, positive };
struct Unary {
  Sign sign;
  ExpressionPointer operand;
};
struct Binary {
  Operator operation;
  ExpressionPointer left, right;
};
struct Concatenation {
  std::vector<ExpressionPointer> parts;
};
struct And {
  ExpressionPointer left, right;
};
struct Or {
  ExpressionPointer left, right;
};
struct Not {
  ExpressionPointer operand;
};
// a < b in c: each sign stands before the value at its place. "in" and "not in" are signs, too.
struct Comparison {
  ExpressionPointer first;
  std::vector<std::pair<std::string, ExpressionPointer>> others;
};
struct Conditional {
  ExpressionPointer condition, then, otherwise;  // otherwise may be null
};
struct Attribute {
  ExpressionPointer object;
  std::string name;
};
struct Item {
  ExpressionPointer object, index;
};
struct Slice {
  ExpressionPointer begin, end, step;  // each may be null
};
struct CallArguments {
  std::vector<ExpressionPointer> positional;
  std::vector<std::pair<std::string, ExpressionPointer>> named;
  ExpressionPointer more_positional, more_named;  // *a and **b, which may be null
};
struct Call {
  ExpressionPointer function;
  CallArguments arguments;
};
struct FilterUse {
  ExpressionPointer input;  // null: the text of the block that is filtered
  std::string name;
  CallArguments arguments;
};
struct TestUse {
  ExpressionPointer input;
  std::string name;
  CallArguments arguments;
};

struct Expression {
  int line = 1;
  int depth = 1;  // of expressions in expressions
  std::variant<Constant, Name, ListDisplay, TupleDisplay, DictionaryDisplay, Unary, Binary, Concatenation, And, Or, Not,
               Comparison, Conditional, Attribute, Item, Slice, Call, FilterUse, TestUse>
      node;
};

// What is assigned to: a name, an attribute of a namespace, or several of these.
struct Target {
  std::string name;
  std::optional<std::string> attribute;
  std::vector<Target> parts;  // not empty: the value is taken apart
  bool is_tuple = false;
};

struct Parameter {
  std::string name;
  ExpressionPointer otherwise;  // may be null
};

struct Output {
  std::vector<ExpressionPointer> values;
};
struct Data {
  std::string text;
};
struct For {
  Target target;
  ExpressionPointer iterable, condition;  // condition may be null
  bool is_recursive = false;
  Statements body, otherwise;
};
struct If {
  std::vector<std::pair<ExpressionPointer, Statements>> branches;
  Statements otherwise;
};
struct Set {
  Target target;
  ExpressionPointer value;
};
struct SetBlock {
  Target target;
  ExpressionPointer filter;  // may be null
  Statements body;
};
struct MacroText {
  std::string name;
  std::vector<Parameter> parameters;
  Statements body;
  bool uses_caller = false, uses_named = false, uses_positional = false;  // caller, kwargs, varargs
};
struct MacroDefinition {
  MacroText macro;
};
struct CallBlock {
  MacroText caller;
  ExpressionPointer call;
};
struct FilterBlock {
  ExpressionPointer filter;
  Statements body;
};
struct With {
  std::vector<std::pair<Target, ExpressionPointer>> values;
  Statements body;
};
// What an assistant said.
struct Generation {
  Statements body;
};
struct Break {};
struct Continue {};

struct Statement {
  int line = 1;
  std::variant<Output, Data, For, If, Set, SetBlock, MacroDefinition, CallBlock, FilterBlock, With, Generation, Break,
               Continue>
      node;
};

}  // namespace llmtrain::jinja
