// SPDX-License-Identifier: Apache-2.0
#include "core/page/terminal.h"

#include <sys/ioctl.h>

namespace llmtrain {

std::optional<std::size_t> terminal_columns(int descriptor) {
  struct winsize size {};
  if (::ioctl(descriptor, TIOCGWINSZ, &size) != 0 || size.ws_col <= 1) return std::nullopt;
  return size.ws_col;
}

}  // namespace llmtrain
