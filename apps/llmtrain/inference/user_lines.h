// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>

#include "apps/llmtrain/inference/line_editor.h"

namespace llmtrain::app {

// Lines of standard input; a terminal is asked for each, and one that can move its cursor lets the user edit them.
class UserLines {
 public:
  UserLines();

  // The next line that is not empty, without its end; none at the end of the input. Blocks. A terminal's line that is
  // not UTF-8, as where editing has cut a character in two, is left out with a warning. Throws Error(bad_data) where
  // another one is not, or nothing can be read.
  std::optional<std::string> next();

 private:
  std::optional<std::string> read();
  bool is_text(const std::string& line) const;

  std::size_t lines_ = 0;
  bool at_terminal_;
  std::optional<LineEditor> editor_;
};

}  // namespace llmtrain::app
