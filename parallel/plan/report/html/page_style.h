// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace llmtrain {

// The page's style sheet and script, which stand in it: nothing is fetched. Without the script all is drawn, but what
// lies under the pointer is not named and the schedule cannot be zoomed.
extern const std::string_view page_style;
extern const std::string_view page_script;

}  // namespace llmtrain
