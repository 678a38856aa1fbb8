// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "core/jinja/syntax/token_stream.h"
#include "core/jinja/syntax/tree.h"

namespace llmtrain::jinja {

// Reads expressions, and keeps what the parser of statements asks about them.
class ExpressionParser {
 public:
  explicit ExpressionParser(TokenStream& tokens) : tokens_(tokens) {}

  // One expression; without `with_condition` "a if b" is not one.
  ExpressionPointer parse(bool with_condition = true);
  // One, or several with commas between them as a tuple; `end` is a name that may follow a comma.
  ExpressionPointer parse_tuple(bool with_condition = true, std::string_view end = {});
  // The filters from here on, applied to the text of a block; null where none stands here. `is_first_bare`: the first
  // has no "|" before it.
  ExpressionPointer parse_block_filters(bool is_first_bare);
  // "a", "a, b" or "(a, b)"; with_attribute: "a.b", too.
  Target parse_target(bool with_attribute, std::string_view end = {});

  // The names caller, kwargs and varargs that were read since the macro's body began.
  struct MacroNames {
    bool caller = false, named = false, positional = false;
  };
  std::vector<MacroNames>& open_macros() { return open_macros_; }

  // Filters and tests that do not exist. Jinja refuses them when it compiles, but not those right within an if.
  struct Unknown {
    int line = 1;
    std::string what;
    bool is_refused = false;  // stays so whatever surrounds it
  };
  std::vector<Unknown>& unknown() { return unknown_; }

 private:
  ExpressionPointer parse_condition();
  ExpressionPointer parse_or();
  ExpressionPointer parse_and();
  ExpressionPointer parse_not();
  ExpressionPointer parse_comparison();
  ExpressionPointer parse_sum();
  ExpressionPointer parse_concatenation();
  ExpressionPointer parse_product();
  ExpressionPointer parse_power();
  ExpressionPointer parse_unary(bool with_filters = true);
  ExpressionPointer parse_primary();
  ExpressionPointer parse_literal();
  ExpressionPointer parse_name();
  ExpressionPointer parse_list();
  ExpressionPointer parse_dictionary();
  ExpressionPointer parse_postfix(ExpressionPointer expression);
  ExpressionPointer parse_filters_and_tests(ExpressionPointer expression);
  ExpressionPointer parse_subscript(ExpressionPointer object);
  ExpressionPointer parse_index();
  ExpressionPointer parse_slice_part();
  ExpressionPointer parse_filter(ExpressionPointer input);
  ExpressionPointer parse_test(ExpressionPointer input);
  CallArguments parse_arguments();
  void parse_argument(CallArguments& arguments);
  bool at_tuple_end(std::string_view end) const;
  std::string parse_dotted_name();
  Target parse_simple_target(bool with_attribute);

  TokenStream& tokens_;
  int level_ = 0;
  std::vector<MacroNames> open_macros_;
  std::vector<Unknown> unknown_;
};

}  // namespace llmtrain::jinja
