// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

enum class TokenKind { data, expression_begin, expression_end, block_begin, block_end, name, literal, sign, end };

struct Token {
  TokenKind kind = TokenKind::end;
  int line = 1;
  std::string text;  // data as it is written out; a name; a sign
  Value value{};     // a literal's
};

// The template's text as tokens, the last of which is the end: comments are gone, raw blocks are data, and white space
// beside tags is as transformers' environment leaves it (trim_blocks, lstrip_blocks, "-" and "+"). Throws
// TemplateError.
std::vector<Token> tokens_of(std::string_view source);

}  // namespace llmtrain::jinja
