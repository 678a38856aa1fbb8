// SPDX-License-Identifier: Apache-2.0
#include "core/page/setting_text.h"

#include "core/base/printable.h"
#include "core/page/text_layout.h"

namespace llmtrain {

std::string setting_text(const Json& value, std::size_t width) {
  if (value.is_null()) return "–";
  return clipped(printable(value.is_string() ? value.get<std::string>()
                                             : value.dump(-1, ' ', false, Json::error_handler_t::replace)),
                 width);
}

}  // namespace llmtrain
