// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/template.h"

#include <set>

#include "core/jinja/evaluator.h"
#include "core/jinja/syntax/parser.h"
#include "core/jinja/syntax/tokens.h"

namespace llmtrain::jinja {
namespace {

std::set<std::string, std::less<>> words_of(std::string_view source) {
  std::set<std::string, std::less<>> words;
  for (const Token& token : tokens_of(source)) {
    if (token.kind == TokenKind::name) words.insert(token.text);
    if (token.kind == TokenKind::literal && text_of(token.value) != nullptr) words.insert(*text_of(token.value));
  }
  return words;
}

}  // namespace

struct Template::Tree {
  Statements statements;
  std::set<std::string, std::less<>> words;
};

Template::Template(std::string_view source)
    : tree_(std::make_shared<const Tree>(Tree{parse(source), words_of(source)})) {}

Rendered Template::render(const Json& variables, const RenderOptions& options) const {
  return Evaluator(options).render(tree_->statements, variables);
}

bool Template::mentions(std::string_view word) const { return tree_->words.contains(word); }

}  // namespace llmtrain::jinja
