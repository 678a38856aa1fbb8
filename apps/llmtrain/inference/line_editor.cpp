// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/line_editor.h"

#include <unistd.h>

#include <array>
#include <clocale>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <string_view>

#include "core/base/error.h"

namespace llmtrain::app {
namespace {

char* prompt(EditLine* /*editor*/) {
  static std::array<char, 3> text{"> "};
  return text.data();
}

// The terminal sends no signals while a line is edited: the process would end with the editor's modes of the terminal.
unsigned char send_signal(EditLine* editor, int key) {
  constexpr int control_c = 3, control_z = 26;
  const int signal = key == control_c ? SIGINT : key == control_z ? SIGTSTP : SIGQUIT;
  el_set(editor, EL_PREP_TERM, 0);
  // To the process: this thread may block signals, which another receives (core/signals/signal_thread.h).
  kill(getpid(), signal);
  // After SIGTSTP the shell lets the process go on, which the pause between request and stop may precede.
  el_set(editor, EL_PREP_TERM, 1);
  return CC_REFRESH;
}

}  // namespace

bool LineEditor::knows_terminal() {
  const char* kind = std::getenv("TERM");
  const std::string_view name = kind == nullptr ? "" : kind;
  return !name.empty() && name != "dumb";
}

LineEditor::LineEditor() {
  // Keys are characters of UTF-8, in whatever language the user's programs speak.
  std::setlocale(LC_CTYPE, "C.UTF-8");
  history_.reset(history_init());
  editor_.reset(el_init("llmtrain", stdin, stdout, stderr));
  if (!history_ || !editor_) throw Error(ExitCode::internal_error, "standard input: the terminal cannot be used");
  constexpr int lines = 1000;
  HistEvent event{};
  history(history_.get(), &event, H_SETSIZE, lines);
  history(history_.get(), &event, H_SETUNIQUE, 1);
  el_set(editor_.get(), EL_PROMPT, &prompt);
  el_set(editor_.get(), EL_EDITOR, "emacs");
  el_set(editor_.get(), EL_HIST, &history, history_.get());
  el_set(editor_.get(), EL_BIND, "^R", "em-inc-search-prev", nullptr);
  el_set(editor_.get(), EL_BIND, "^W", "ed-delete-prev-word", nullptr);
  el_source(editor_.get(), nullptr);
  el_set(editor_.get(), EL_SETTY, "-d", "-isig", nullptr);
  el_set(editor_.get(), EL_ADDFN, "llmtrain-signal", "Sends the signal of the key", &send_signal);
  for (const char* key : {"^C", "\\034", "^Z"}) el_set(editor_.get(), EL_BIND, key, "llmtrain-signal", nullptr);
}

std::optional<std::string> LineEditor::next() {
  el_resize(editor_.get());
  // Before the prompt, so that no key that follows it is taken by the terminal's own editing.
  el_set(editor_.get(), EL_PREP_TERM, 1);
  int bytes = 0;
  const char* text = el_gets(editor_.get(), &bytes);
  if (bytes < 0) throw Error(ExitCode::bad_data, "standard input: cannot be read");
  if (text == nullptr || bytes == 0) return std::nullopt;
  std::string line = text;
  if (line.ends_with('\n')) line.pop_back();
  HistEvent event{};
  if (!line.empty()) history(history_.get(), &event, H_ENTER, line.c_str());
  return line;
}

}  // namespace llmtrain::app
