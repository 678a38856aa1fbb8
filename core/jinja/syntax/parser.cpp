// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/syntax/parser.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <array>

#include "core/jinja/syntax/expression_parser.h"
#include "core/jinja/syntax/make_expression.h"
#include "core/jinja/syntax/template_error.h"

namespace llmtrain::jinja {
namespace {

using EndTags = std::initializer_list<std::string_view>;

constexpr int deepest_statement = 80;

class Parser {
 public:
  explicit Parser(std::string_view source) : tokens_(tokens_of(source)), expressions_(tokens_) {}

  Statements parse() {
    Statements statements = parse_until({});
    if (!expressions_.unknown().empty()) {
      const auto& unknown = expressions_.unknown().front();
      throw TemplateError(unknown.line, unknown.what);
    }
    return statements;
  }

 private:
  template <typename Node>
  static std::unique_ptr<const Statement> make(int line, Node node) {
    auto statement = std::make_unique<Statement>();
    statement->line = line;
    statement->node = std::move(node);
    return statement;
  }

  // Up to a tag of `ends`, whose name is then current, or the end of the template where there are none.
  Statements parse_until(EndTags ends) {
    if (++level_ > deepest_statement) tokens_.refuse("statements are nested too deeply");
    Statements statements;
    while (!tokens_.at(TokenKind::end)) {
      const int line = tokens_.line();
      if (tokens_.at(TokenKind::data)) {
        statements.push_back(make(line, Data{tokens_.take().text}));
      } else if (tokens_.at(TokenKind::expression_begin)) {
        tokens_.take();
        Output output;
        output.values.push_back(expressions_.parse_tuple());
        statements.push_back(make(line, std::move(output)));
        tokens_.expect(TokenKind::expression_end);
      } else {
        tokens_.expect(TokenKind::block_begin);
        if (std::ranges::any_of(ends, [&](std::string_view end) { return tokens_.at_name(end); })) {
          --level_;
          return statements;
        }
        statements.push_back(parse_statement(ends));
        tokens_.expect(TokenKind::block_end);
      }
    }
    if (ends.size() > 0)
      tokens_.refuse(fmt::format("Unexpected end of template. Jinja was looking for the following tags: '{}'.",
                                 fmt::join(ends, "' or '")));
    --level_;
    return statements;
  }

  // The statements behind a tag, up to one of `ends`, whose name is then current.
  Statements parse_body(EndTags ends) {
    tokens_.take_sign(":");
    tokens_.expect(TokenKind::block_end);
    return parse_until(ends);
  }

  // The body of a block with names of its own, in which a filter that does not exist is refused though the block be
  // within an if. The tag that ends it is passed.
  Statements parse_scope(std::string_view end) {
    const std::size_t unknown_before = expressions_.unknown().size();
    Statements statements = parse_body({end});
    tokens_.take();
    refuse_unknown_since(unknown_before);
    return statements;
  }

  void refuse_unknown_since(std::size_t begin) {
    auto& unknown = expressions_.unknown();
    for (std::size_t index = begin; index < unknown.size(); ++index) unknown[index].is_refused = true;
  }

  std::unique_ptr<const Statement> parse_statement(EndTags ends) {
    using Parse = std::unique_ptr<const Statement> (Parser::*)(int);
    static constexpr std::pair<std::string_view, Parse> tags[] = {
        {"for", &Parser::parse_for},         {"if", &Parser::parse_if},
        {"set", &Parser::parse_set},         {"macro", &Parser::parse_macro},
        {"call", &Parser::parse_call_block}, {"filter", &Parser::parse_filter_block},
        {"with", &Parser::parse_with},       {"generation", &Parser::parse_generation},
        {"break", &Parser::parse_jump},      {"continue", &Parser::parse_jump},
        {"print", &Parser::parse_print}};
    const int line = tokens_.line();
    if (!tokens_.at(TokenKind::name)) tokens_.refuse("tag name expected");
    const std::string name = tokens_.current().text;
    const auto* tag = std::ranges::find(tags, name, [](const auto& each) { return each.first; });
    if (tag == std::end(tags)) refuse_tag(name, ends);
    if (name != "break" && name != "continue") tokens_.take();
    return (this->*tag->second)(line);
  }

  [[noreturn]] void refuse_tag(const std::string& name, EndTags ends) const {
    static constexpr std::array<std::string_view, 6> others = {"block",  "extends", "include",
                                                               "import", "from",    "autoescape"};
    if (std::ranges::find(others, name) != others.end())
      tokens_.refuse(fmt::format("the tag '{}' is not supported in a chat template", name));
    std::string message = fmt::format("Encountered unknown tag '{}'.", name);
    if (ends.size() > 0)
      message += fmt::format(" Jinja was looking for the following tags: '{}'.", fmt::join(ends, "' or '"));
    tokens_.refuse(message);
  }

  std::unique_ptr<const Statement> parse_for(int line) {
    For node;
    ++fors_;
    node.target = parse_target(false, "in");
    tokens_.expect_name("in");
    node.iterable = expressions_.parse_tuple(false, "recursive");
    const std::size_t unknown_before = expressions_.unknown().size();
    if (tokens_.take_name("if")) node.condition = expressions_.parse();
    node.is_recursive = tokens_.take_name("recursive");
    const int outer_loops = loops_;
    loops_ = outer_loops + 1;
    node.body = parse_body({"endfor", "else"});
    loops_ = node.is_recursive ? 0 : outer_loops;
    if (tokens_.take().text == "else") {
      node.otherwise = parse_body({"endfor"});
      tokens_.take();
    }
    loops_ = outer_loops;
    refuse_unknown_since(unknown_before);
    --fors_;
    return make(line, std::move(node));
  }

  std::unique_ptr<const Statement> parse_if(int line) {
    If node;
    const std::size_t unknown_before = expressions_.unknown().size();
    for (std::string tag = "elif"; tag == "elif"; tag = tokens_.take().text) {
      auto condition = expressions_.parse_tuple(false);
      node.branches.emplace_back(std::move(condition), parse_body({"elif", "else", "endif"}));
      if (tokens_.at_name("else")) {
        tokens_.take();
        node.otherwise = parse_body({"endif"});
      }
    }
    auto& unknown = expressions_.unknown();
    unknown.erase(std::remove_if(unknown.begin() + static_cast<std::ptrdiff_t>(unknown_before), unknown.end(),
                                 [](const auto& each) { return !each.is_refused; }),
                  unknown.end());
    return make(line, std::move(node));
  }

  Target parse_target(bool with_attribute, std::string_view end = {}) {
    Target target = expressions_.parse_target(with_attribute, end);
    check_is_not_loop(target);
    return target;
  }

  void check_is_not_loop(const Target& target) const {
    if (fors_ > 0 && !target.attribute && target.name == "loop")
      tokens_.refuse("Can't assign to special loop variable in for-loop target");
    for (const Target& part : target.parts) check_is_not_loop(part);
  }

  std::unique_ptr<const Statement> parse_set(int line) {
    Target target = parse_target(true);
    if (tokens_.take_sign("=")) return make(line, Set{std::move(target), expressions_.parse_tuple()});
    const std::size_t unknown_before = expressions_.unknown().size();
    SetBlock node{std::move(target), expressions_.parse_block_filters(false), {}};
    node.body = parse_scope("endset");
    refuse_unknown_since(unknown_before);
    return make(line, std::move(node));
  }

  void parse_parameters(MacroText& macro) {
    tokens_.expect_sign("(");
    while (!tokens_.at_sign(")")) {
      if (!macro.parameters.empty()) tokens_.expect_sign(",");
      Parameter parameter{tokens_.expect(TokenKind::name).text, nullptr};
      if (std::ranges::find(macro.parameters, parameter.name, &Parameter::name) != macro.parameters.end())
        tokens_.refuse("duplicate argument '" + parameter.name + "' in macro definition");
      if (tokens_.take_sign("=")) {
        parameter.otherwise = expressions_.parse();
      } else if (!macro.parameters.empty() && macro.parameters.back().otherwise) {
        tokens_.refuse("non-default argument follows default argument");
      }
      macro.parameters.push_back(std::move(parameter));
    }
    tokens_.expect_sign(")");
  }

  // A macro's body: no loop around it can be left from within.
  void parse_macro_body(MacroText& macro, std::string_view end) {
    const int outer_loops = std::exchange(loops_, 0);
    expressions_.open_macros().emplace_back();
    macro.body = parse_scope(end);
    const auto names = expressions_.open_macros().back();
    expressions_.open_macros().pop_back();
    loops_ = outer_loops;
    const auto parameter = [&](std::string_view name) {
      return std::ranges::find(macro.parameters, name, &Parameter::name);
    };
    const auto caller = parameter("caller");
    if (names.caller && caller != macro.parameters.end() && !caller->otherwise)
      tokens_.refuse(
          "When defining macros or call blocks the special \"caller\" argument must be omitted or be given a default.");
    macro.uses_caller = names.caller;
    macro.uses_named = names.named && parameter("kwargs") == macro.parameters.end();
    macro.uses_positional = names.positional && parameter("varargs") == macro.parameters.end();
  }

  std::unique_ptr<const Statement> parse_macro(int line) {
    MacroDefinition node;
    node.macro.name = tokens_.expect(TokenKind::name).text;
    const std::size_t unknown_before = expressions_.unknown().size();
    parse_parameters(node.macro);
    parse_macro_body(node.macro, "endmacro");
    refuse_unknown_since(unknown_before);
    return make(line, std::move(node));
  }

  std::unique_ptr<const Statement> parse_call_block(int line) {
    CallBlock node;
    if (tokens_.at_sign("(")) parse_parameters(node.caller);
    node.call = expressions_.parse();
    if (!std::holds_alternative<Call>(node.call->node)) tokens_.refuse("expected call");
    parse_macro_body(node.caller, "endcall");
    return make(line, std::move(node));
  }

  std::unique_ptr<const Statement> parse_filter_block(int line) {
    const std::size_t unknown_before = expressions_.unknown().size();
    FilterBlock node{expressions_.parse_block_filters(true), {}};
    node.body = parse_scope("endfilter");
    refuse_unknown_since(unknown_before);
    return make(line, std::move(node));
  }

  std::unique_ptr<const Statement> parse_with(int line) {
    With node;
    while (!tokens_.at(TokenKind::block_end) && !tokens_.at(TokenKind::end)) {
      if (!node.values.empty()) tokens_.expect_sign(",");
      Target target = expressions_.parse_target(false);
      tokens_.expect_sign("=");
      node.values.emplace_back(std::move(target), expressions_.parse());
    }
    node.body = parse_scope("endwith");
    return make(line, std::move(node));
  }

  std::unique_ptr<const Statement> parse_generation(int line) {
    const int outer_loops = std::exchange(loops_, 0);
    Generation node{parse_scope("endgeneration")};
    loops_ = outer_loops;
    return make(line, std::move(node));
  }

  std::unique_ptr<const Statement> parse_jump(int line) {
    const std::string& name = tokens_.current().text;
    if (loops_ == 0) tokens_.refuse("'" + name + "' outside loop");
    return tokens_.take().text == "break" ? make(line, Break{}) : make(line, Continue{});
  }

  std::unique_ptr<const Statement> parse_print(int line) {
    Output output;
    while (!tokens_.at(TokenKind::block_end) && !tokens_.at(TokenKind::end)) {
      if (!output.values.empty()) tokens_.expect_sign(",");
      output.values.push_back(expressions_.parse());
    }
    return make(line, std::move(output));
  }

  TokenStream tokens_;
  ExpressionParser expressions_;
  int level_ = 0;
  int loops_ = 0;  // that "break" could leave here
  int fors_ = 0;   // for blocks around here
};

}  // namespace

Statements parse(std::string_view source) { return Parser(source).parse(); }

}  // namespace llmtrain::jinja
