// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "core/jinja/syntax/tree.h"

namespace llmtrain::jinja {

// The statements of a template. Throws TemplateError for what transformers' environment refuses, for tags that need
// other templates (include, import, extends, block), and for what is nested too deeply.
Statements parse(std::string_view source);

}  // namespace llmtrain::jinja
