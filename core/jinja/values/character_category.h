// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <utf8proc.h>

namespace llmtrain::jinja {

// Unicode's general category.
inline utf8proc_category_t category_of(char32_t character) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(character));
}

}  // namespace llmtrain::jinja
