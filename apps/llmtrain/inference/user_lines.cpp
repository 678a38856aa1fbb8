// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/user_lines.h"

#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cstdio>
#include <iostream>

#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/printable.h"

namespace llmtrain::app {

UserLines::UserLines() : at_terminal_(isatty(STDIN_FILENO) == 1 && isatty(STDOUT_FILENO) == 1) {
  if (at_terminal_ && LineEditor::knows_terminal()) editor_.emplace();
}

std::optional<std::string> UserLines::next() {
  while (std::optional<std::string> line = read()) {
    if (line->ends_with('\r')) line->pop_back();
    if (!line->empty() && is_text(*line)) return line;
  }
  // The end of the input leaves a terminal's prompt without a line's end.
  if (at_terminal_) write_result("\n");
  return std::nullopt;
}

std::optional<std::string> UserLines::read() {
  ++lines_;
  if (editor_) return editor_->next();
  if (at_terminal_) write_result("> ");
  if (std::string line; std::getline(std::cin, line)) return line;
  if (std::ferror(stdin) != 0) throw Error(ExitCode::bad_data, "standard input: cannot be read");
  return std::nullopt;
}

bool UserLines::is_text(const std::string& line) const {
  if (is_utf8(line)) return true;
  const std::string reason = fmt::format("standard input: line {} is not UTF-8", lines_);
  if (!at_terminal_) throw Error(ExitCode::bad_data, reason);
  log().warn("{}, and is left out", reason);
  return false;
}

}  // namespace llmtrain::app
