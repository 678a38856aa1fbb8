// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/jinja/syntax/tree.h"

namespace llmtrain::jinja {

// The node as an expression that knows how deep it is. Refuses by TemplateError what is too deep: expressions are
// computed and destroyed recursively.
ExpressionPointer make_expression(int line, decltype(Expression::node) node);

}  // namespace llmtrain::jinja
