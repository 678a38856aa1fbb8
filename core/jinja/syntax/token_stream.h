// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/jinja/syntax/tokens.h"

namespace llmtrain::jinja {

// Where a parser is among the tokens. Signs and names are asked for by their text. Refuses by TemplateError.
class TokenStream {
 public:
  explicit TokenStream(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  const Token& current() const { return tokens_[place_]; }
  const Token& next_but_one() const { return tokens_[std::min(place_ + 1, tokens_.size() - 1)]; }
  int line() const { return current().line; }

  bool at(TokenKind kind) const { return current().kind == kind; }
  bool at_sign(std::string_view sign) const { return at(TokenKind::sign) && current().text == sign; }
  bool at_name(std::string_view name) const { return at(TokenKind::name) && current().text == name; }

  // The token, behind which the stream then is; the end stays current.
  const Token& take();
  bool take_sign(std::string_view sign);
  bool take_name(std::string_view name);
  const Token& expect(TokenKind kind);
  void expect_sign(std::string_view sign);
  void expect_name(std::string_view name);

  [[noreturn]] void refuse(const std::string& reason) const;
  [[noreturn]] void refuse_current(std::string_view expected) const;

 private:
  std::vector<Token> tokens_;
  std::size_t place_ = 0;
};

// The token as a message names it.
std::string described(const Token& token);

}  // namespace llmtrain::jinja
