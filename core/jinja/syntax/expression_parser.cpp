// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/syntax/expression_parser.h"

#include <algorithm>
#include <array>

#include "core/jinja/syntax/make_expression.h"
#include "core/jinja/syntax/template_error.h"

namespace llmtrain::jinja {
namespace {

constexpr int deepest_expression = 150;

class Level {
 public:
  Level(int& level, int line) : level_(level) {
    if (++level_ > deepest_expression) throw TemplateError(line, "expressions are nested too deeply");
  }
  ~Level() { --level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  int& level_;
};

}  // namespace

ExpressionPointer ExpressionParser::parse(bool with_condition) {
  const Level level(level_, tokens_.line());
  return with_condition ? parse_condition() : parse_or();
}

ExpressionPointer ExpressionParser::parse_condition() {
  const std::size_t unknown_before = unknown_.size();
  int line = tokens_.line();
  auto result = parse_or();
  while (tokens_.take_name("if")) {
    auto condition = parse_or();
    const Level level(level_, line);
    auto otherwise = tokens_.take_name("else") ? parse_condition() : nullptr;
    result = make_expression(line, Conditional{std::move(condition), std::move(result), std::move(otherwise)});
    unknown_.resize(unknown_before);
    line = tokens_.line();
  }
  return result;
}

ExpressionPointer ExpressionParser::parse_or() {
  const int line = tokens_.line();
  auto left = parse_and();
  while (tokens_.take_name("or")) {
    auto right = parse_and();
    left = make_expression(line, Or{std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_and() {
  const int line = tokens_.line();
  auto left = parse_not();
  while (tokens_.take_name("and")) {
    auto right = parse_not();
    left = make_expression(line, And{std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_not() {
  const int line = tokens_.line();
  if (!tokens_.take_name("not")) return parse_comparison();
  const Level level(level_, line);
  return make_expression(line, Not{parse_not()});
}

ExpressionPointer ExpressionParser::parse_comparison() {
  static constexpr std::array<std::string_view, 6> signs = {"==", "!=", "<", "<=", ">", ">="};
  const int line = tokens_.line();
  Comparison comparison{parse_sum(), {}};
  for (;;) {
    std::string sign;
    if (tokens_.at(TokenKind::sign) && std::ranges::find(signs, tokens_.current().text) != signs.end()) {
      sign = tokens_.take().text;
    } else if (tokens_.take_name("in")) {
      sign = "in";
    } else if (tokens_.at_name("not") && tokens_.next_but_one().kind == TokenKind::name &&
               tokens_.next_but_one().text == "in") {
      tokens_.take();
      tokens_.take();
      sign = "not in";
    } else {
      break;
    }
    comparison.others.emplace_back(sign, parse_sum());
  }
  return comparison.others.empty() ? std::move(comparison.first) : make_expression(line, std::move(comparison));
}

ExpressionPointer ExpressionParser::parse_sum() {
  const int line = tokens_.line();
  auto left = parse_concatenation();
  while (tokens_.at_sign("+") || tokens_.at_sign("-")) {
    const Operator operation = tokens_.take().text == "+" ? Operator::add : Operator::subtract;
    auto right = parse_concatenation();
    left = make_expression(line, Binary{operation, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_concatenation() {
  const int line = tokens_.line();
  Concatenation concatenation;
  concatenation.parts.push_back(parse_product());
  while (tokens_.take_sign("~")) concatenation.parts.push_back(parse_product());
  if (concatenation.parts.size() == 1) return std::move(concatenation.parts[0]);
  return make_expression(line, std::move(concatenation));
}

ExpressionPointer ExpressionParser::parse_product() {
  static constexpr std::pair<std::string_view, Operator> signs[] = {
      {"*", Operator::multiply}, {"/", Operator::divide}, {"//", Operator::floor_divide}, {"%", Operator::modulo}};
  const int line = tokens_.line();
  auto left = parse_power();
  for (;;) {
    const auto* sign = std::ranges::find_if(signs, [&](const auto& each) { return tokens_.at_sign(each.first); });
    if (sign == std::end(signs)) return left;
    tokens_.take();
    auto right = parse_power();
    left = make_expression(line, Binary{sign->second, std::move(left), std::move(right)});
  }
}

// Unlike Python's, Jinja's powers go from left to right.
ExpressionPointer ExpressionParser::parse_power() {
  const int line = tokens_.line();
  auto left = parse_unary();
  while (tokens_.take_sign("**")) {
    auto right = parse_unary();
    left = make_expression(line, Binary{Operator::power, std::move(left), std::move(right)});
  }
  return left;
}

ExpressionPointer ExpressionParser::parse_unary(bool with_filters) {
  const int line = tokens_.line();
  const Level level(level_, line);
  ExpressionPointer result;
  if (tokens_.at_sign("-") || tokens_.at_sign("+")) {
    const Sign sign = tokens_.take().text == "-" ? Sign::negative : Sign::positive;
    result = make_expression(line, Unary{sign, parse_unary(false)});
  } else {
    result = parse_primary();
  }
  result = parse_postfix(std::move(result));
  return with_filters ? parse_filters_and_tests(std::move(result)) : std::move(result);
}

bool ExpressionParser::at_tuple_end(std::string_view end) const {
  return tokens_.at(TokenKind::expression_end) || tokens_.at(TokenKind::block_end) || tokens_.at_sign(")") ||
         (!end.empty() && tokens_.at_name(end));
}

ExpressionPointer ExpressionParser::parse_tuple(bool with_condition, std::string_view end) {
  const int line = tokens_.line();
  TupleDisplay tuple;
  bool is_tuple = false;
  for (;;) {
    if (!tuple.items.empty()) tokens_.expect_sign(",");
    if (at_tuple_end(end)) break;
    tuple.items.push_back(parse(with_condition));
    if (!tokens_.at_sign(",")) break;
    is_tuple = true;
  }
  if (is_tuple) return make_expression(line, std::move(tuple));
  if (tuple.items.empty()) tokens_.refuse("Expected an expression, got '" + described(tokens_.current()) + "'");
  return std::move(tuple.items[0]);
}

Target ExpressionParser::parse_simple_target(bool with_attribute) {
  const Level level(level_, tokens_.line());
  Target target;
  if (tokens_.take_sign("(")) {
    target = parse_target(false);
    tokens_.expect_sign(")");
    return target;
  }
  if (!tokens_.at(TokenKind::name)) tokens_.refuse("can't assign to '" + described(tokens_.current()) + "'");
  target.name = tokens_.take().text;
  static constexpr std::array<std::string_view, 6> reserved = {"true", "false", "none", "True", "False", "None"};
  if (std::ranges::find(reserved, target.name) != reserved.end())
    tokens_.refuse("can't assign to '" + target.name + "'");
  if (with_attribute && tokens_.take_sign(".")) target.attribute = tokens_.expect(TokenKind::name).text;
  return target;
}

Target ExpressionParser::parse_target(bool with_attribute, std::string_view end) {
  Target tuple;
  for (;;) {
    if (!tuple.parts.empty()) tokens_.expect_sign(",");
    if (at_tuple_end(end)) break;
    tuple.parts.push_back(parse_simple_target(with_attribute));
    if (!tokens_.at_sign(",")) break;
    tuple.is_tuple = true;
  }
  if (tuple.parts.empty()) tokens_.refuse("Expected a name, got '" + described(tokens_.current()) + "'");
  if (tuple.is_tuple) return tuple;
  Target single = std::move(tuple.parts[0]);
  return single;
}

}  // namespace llmtrain::jinja
