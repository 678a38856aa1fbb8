// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/template.h"

#include "core/jinja/evaluator.h"
#include "core/jinja/syntax/parser.h"

namespace llmtrain::jinja {

struct Template::Tree {
  Statements statements;
};

Template::Template(std::string_view source) : tree_(std::make_shared<const Tree>(Tree{parse(source)})) {}

Rendered Template::render(const Json& variables, const RenderOptions& options) const {
  return Evaluator(options).render(tree_->statements, variables);
}

}  // namespace llmtrain::jinja
