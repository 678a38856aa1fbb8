// SPDX-License-Identifier: Apache-2.0
// Values, and what may follow one: attributes, items, calls, filters and tests.
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "core/jinja/filters/filters.h"
#include "core/jinja/filters/tests.h"
#include "core/jinja/syntax/expression_parser.h"
#include "core/jinja/syntax/make_expression.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {

ExpressionPointer ExpressionParser::parse_primary() {
  const int line = tokens_.line();
  if (tokens_.at(TokenKind::name)) return parse_name();
  if (tokens_.at(TokenKind::literal)) return parse_literal();
  if (tokens_.at_sign("[")) return parse_list();
  if (tokens_.at_sign("{")) return parse_dictionary();
  if (!tokens_.take_sign("(")) tokens_.refuse("unexpected '" + described(tokens_.current()) + "'");
  if (tokens_.take_sign(")")) return make_expression(line, TupleDisplay{});
  auto result = parse_tuple();
  tokens_.expect_sign(")");
  return result;
}

ExpressionPointer ExpressionParser::parse_name() {
  const int line = tokens_.line();
  const std::string name = tokens_.take().text;
  if (name == "true" || name == "True") return make_expression(line, Constant{boolean(true)});
  if (name == "false" || name == "False") return make_expression(line, Constant{boolean(false)});
  if (name == "none" || name == "None") return make_expression(line, Constant{none()});
  for (MacroNames& names : open_macros_) {
    names.caller |= name == "caller";
    names.named |= name == "kwargs";
    names.positional |= name == "varargs";
  }
  return make_expression(line, Name{name});
}

// Texts side by side are one.
ExpressionPointer ExpressionParser::parse_literal() {
  const int line = tokens_.line();
  Value value = tokens_.take().value;
  if (!text_of(value)) return make_expression(line, Constant{std::move(value)});
  std::string bytes = *text_of(value);
  while (tokens_.at(TokenKind::literal) && text_of(tokens_.current().value)) bytes += *text_of(tokens_.take().value);
  return make_expression(line, Constant{text(std::move(bytes))});
}

ExpressionPointer ExpressionParser::parse_list() {
  const int line = tokens_.line();
  tokens_.expect_sign("[");
  ListDisplay list;
  while (!tokens_.at_sign("]")) {
    if (!list.items.empty()) tokens_.expect_sign(",");
    if (tokens_.at_sign("]")) break;
    list.items.push_back(parse());
  }
  tokens_.expect_sign("]");
  return make_expression(line, std::move(list));
}

ExpressionPointer ExpressionParser::parse_dictionary() {
  const int line = tokens_.line();
  tokens_.expect_sign("{");
  DictionaryDisplay dictionary;
  while (!tokens_.at_sign("}")) {
    if (!dictionary.pairs.empty()) tokens_.expect_sign(",");
    if (tokens_.at_sign("}")) break;
    auto key = parse();
    tokens_.expect_sign(":");
    dictionary.pairs.emplace_back(std::move(key), parse());
  }
  tokens_.expect_sign("}");
  return make_expression(line, std::move(dictionary));
}

ExpressionPointer ExpressionParser::parse_postfix(ExpressionPointer expression) {
  for (;;) {
    const int line = tokens_.line();
    if (tokens_.at_sign(".") || tokens_.at_sign("[")) {
      expression = parse_subscript(std::move(expression));
    } else if (tokens_.at_sign("(")) {
      auto arguments = parse_arguments();
      expression = make_expression(line, Call{std::move(expression), std::move(arguments)});
    } else {
      return expression;
    }
  }
}

ExpressionPointer ExpressionParser::parse_filters_and_tests(ExpressionPointer expression) {
  for (;;) {
    const int line = tokens_.line();
    if (tokens_.take_sign("|")) {
      expression = parse_filter(std::move(expression));
    } else if (tokens_.take_name("is")) {
      expression = parse_test(std::move(expression));
    } else if (tokens_.at_sign("(")) {
      auto arguments = parse_arguments();
      expression = make_expression(line, Call{std::move(expression), std::move(arguments)});
    } else {
      return expression;
    }
  }
}

ExpressionPointer ExpressionParser::parse_subscript(ExpressionPointer object) {
  const int line = tokens_.line();
  if (tokens_.take_sign(".")) {
    const Token& token = tokens_.take();
    if (token.kind == TokenKind::name) return make_expression(line, Attribute{std::move(object), token.text});
    if (token.kind != TokenKind::literal || !token.value.is<std::int64_t>()) tokens_.refuse("expected name or number");
    return make_expression(line, Item{std::move(object), make_expression(line, Constant{token.value})});
  }
  tokens_.expect_sign("[");
  TupleDisplay indices;
  while (!tokens_.at_sign("]")) {
    if (!indices.items.empty()) tokens_.expect_sign(",");
    indices.items.push_back(parse_index());
  }
  tokens_.expect_sign("]");
  if (indices.items.size() == 1) return make_expression(line, Item{std::move(object), std::move(indices.items[0])});
  return make_expression(line, Item{std::move(object), make_expression(line, std::move(indices))});
}

// A part that is left out is null.
ExpressionPointer ExpressionParser::parse_slice_part() {
  const bool is_left_out = tokens_.at_sign(":") || tokens_.at_sign("]") || tokens_.at_sign(",");
  return is_left_out ? nullptr : parse();
}

ExpressionPointer ExpressionParser::parse_index() {
  const int line = tokens_.line();
  Slice slice;
  if (!tokens_.at_sign(":")) {
    auto first = parse();
    if (!tokens_.at_sign(":")) return first;
    slice.begin = std::move(first);
  }
  tokens_.expect_sign(":");
  slice.end = parse_slice_part();
  if (tokens_.take_sign(":")) slice.step = parse_slice_part();
  return make_expression(line, std::move(slice));
}

CallArguments ExpressionParser::parse_arguments() {
  tokens_.expect_sign("(");
  CallArguments arguments;
  for (bool is_first = true; !tokens_.at_sign(")"); is_first = false) {
    if (!is_first) {
      tokens_.expect_sign(",");
      if (tokens_.at_sign(")")) break;
    }
    parse_argument(arguments);
  }
  tokens_.expect_sign(")");
  return arguments;
}

void ExpressionParser::parse_argument(CallArguments& arguments) {
  const auto ensure = [&](bool condition) {
    if (!condition) tokens_.refuse("invalid syntax for function call expression");
  };
  if (tokens_.take_sign("*")) {
    ensure(!arguments.more_positional && !arguments.more_named);
    arguments.more_positional = parse();
  } else if (tokens_.take_sign("**")) {
    ensure(!arguments.more_named);
    arguments.more_named = parse();
  } else if (tokens_.at(TokenKind::name) && tokens_.next_but_one().kind == TokenKind::sign &&
             tokens_.next_but_one().text == "=") {
    ensure(!arguments.more_named);
    const std::string name = tokens_.take().text;
    tokens_.take();
    if (std::ranges::find(arguments.named, name, [](const auto& each) { return each.first; }) != arguments.named.end())
      tokens_.refuse("the argument '" + name + "' is given twice");
    arguments.named.emplace_back(name, parse());
  } else {
    ensure(!arguments.more_positional && !arguments.more_named && arguments.named.empty());
    arguments.positional.push_back(parse());
  }
}

std::string ExpressionParser::parse_dotted_name() {
  std::string name = tokens_.expect(TokenKind::name).text;
  while (tokens_.take_sign(".")) name += "." + tokens_.expect(TokenKind::name).text;
  return name;
}

ExpressionPointer ExpressionParser::parse_filter(ExpressionPointer input) {
  const int line = tokens_.line();
  FilterUse use{std::move(input), parse_dotted_name(), {}};
  if (!find_filter(use.name)) unknown_.push_back({line, "No filter named '" + use.name + "'.", false});
  if (tokens_.at_sign("(")) use.arguments = parse_arguments();
  return make_expression(line, std::move(use));
}

ExpressionPointer ExpressionParser::parse_block_filters(bool is_first_bare) {
  ExpressionPointer result;
  while (is_first_bare || tokens_.take_sign("|")) {
    is_first_bare = false;
    result = parse_filter(std::move(result));
  }
  return result;
}

ExpressionPointer ExpressionParser::parse_test(ExpressionPointer input) {
  const int line = tokens_.line();
  const bool is_negated = tokens_.take_name("not");
  TestUse use{std::move(input), parse_dotted_name(), {}};
  if (!find_test(use.name)) unknown_.push_back({line, "No test named '" + use.name + "'.", false});
  const bool at_operand =
      tokens_.at(TokenKind::name) || tokens_.at(TokenKind::literal) || tokens_.at_sign("[") || tokens_.at_sign("{");
  const bool at_word = tokens_.at_name("else") || tokens_.at_name("or") || tokens_.at_name("and");
  if (tokens_.at_sign("(")) {
    use.arguments = parse_arguments();
  } else if (at_operand && !at_word) {
    if (tokens_.at_name("is")) tokens_.refuse("You cannot chain multiple tests with is");
    use.arguments.positional.push_back(parse_postfix(parse_primary()));
  }
  auto result = make_expression(line, std::move(use));
  return is_negated ? make_expression(line, Not{std::move(result)}) : std::move(result);
}

}  // namespace llmtrain::jinja
