// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/syntax/token_stream.h"

#include <spdlog/fmt/fmt.h>

#include "core/jinja/syntax/template_error.h"

namespace llmtrain::jinja {
namespace {

std::string_view described(TokenKind kind) {
  switch (kind) {
    case TokenKind::data:
      return "template data / text";
    case TokenKind::expression_begin:
      return "begin of print statement";
    case TokenKind::expression_end:
      return "end of print statement";
    case TokenKind::block_begin:
      return "begin of statement block";
    case TokenKind::block_end:
      return "end of statement block";
    case TokenKind::name:
      return "name";
    case TokenKind::literal:
      return "literal";
    case TokenKind::sign:
      return "sign";
    case TokenKind::end:
      return "end of template";
  }
  return "";
}

}  // namespace

std::string described(const Token& token) {
  const bool has_text =
      token.kind == TokenKind::name || token.kind == TokenKind::literal || token.kind == TokenKind::sign;
  return has_text ? token.text : std::string(described(token.kind));
}

const Token& TokenStream::take() {
  const Token& token = tokens_[place_];
  if (place_ + 1 < tokens_.size()) ++place_;
  return token;
}

bool TokenStream::take_sign(std::string_view sign) {
  if (!at_sign(sign)) return false;
  take();
  return true;
}

bool TokenStream::take_name(std::string_view name) {
  if (!at_name(name)) return false;
  take();
  return true;
}

const Token& TokenStream::expect(TokenKind kind) {
  if (!at(kind)) refuse_current(described(kind));
  return take();
}

void TokenStream::expect_sign(std::string_view sign) {
  if (!take_sign(sign)) refuse_current(sign);
}

void TokenStream::expect_name(std::string_view name) {
  if (!take_name(name)) refuse_current(name);
}

void TokenStream::refuse(const std::string& reason) const { throw TemplateError(line(), reason); }

void TokenStream::refuse_current(std::string_view expected) const {
  if (at(TokenKind::end)) refuse(fmt::format("unexpected end of template, expected '{}'.", expected));
  refuse(fmt::format("expected token '{}', got '{}'", expected, described(current())));
}

}  // namespace llmtrain::jinja
