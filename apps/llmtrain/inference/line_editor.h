// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <histedit.h>

#include <memory>
#include <optional>
#include <string>

namespace llmtrain::app {

// Lines that are typed at a terminal, each edited before it is taken: libedit with the keys of shells and what the
// user's ~/.editrc binds. It remembers the lines of this process alone. One at a time.
class LineEditor {
 public:
  // Whether the terminal is of a kind whose cursor can be moved.
  static bool knows_terminal();

  // Standard input and output are the terminal. Throws Error(internal_error) where it cannot be used.
  LineEditor();

  // Asks for a line, and waits for it; without its end, and none at the end of the input. Ctrl-C, Ctrl-\ and Ctrl-Z do
  // to the process what they do without an editor, after the terminal has its modes back. Throws Error(bad_data) where
  // nothing can be read.
  std::optional<std::string> next();

 private:
  struct Close {
    void operator()(EditLine* editor) const noexcept { el_end(editor); }
    void operator()(History* history) const noexcept { history_end(history); }
  };
  std::unique_ptr<History, Close> history_;
  std::unique_ptr<EditLine, Close> editor_;  // refers to the history
};

}  // namespace llmtrain::app
