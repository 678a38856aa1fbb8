// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace llmtrain {

// The page's inline style sheet and script; a page fetches nothing. Without the script everything is drawn, but there
// are no tooltips and no zoom.
extern const std::string_view page_style;
extern const std::string_view page_script;

}  // namespace llmtrain
