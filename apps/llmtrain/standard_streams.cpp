// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/page/terminal.h"
#include "core/page/text_layout.h"

namespace llmtrain::app {

void prepare_standard_streams() {
  // Writes then fail with EPIPE or EFBIG, which write_result() and FileWriter report.
  std::signal(SIGPIPE, SIG_IGN);
  std::signal(SIGXFSZ, SIG_IGN);
  for (const int descriptor : {STDIN_FILENO, STDOUT_FILENO, STDERR_FILENO}) {
    // Read-only, so that results that go nowhere are still an error.
    if (::fcntl(descriptor, F_GETFD) == -1) static_cast<void>(::open("/dev/null", O_RDONLY));
  }
}

namespace {

void write_bytes(std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(STDOUT_FILENO, text.data(), text.size());
    if (written >= 0) {
      text.remove_prefix(static_cast<std::size_t>(written));
      // `llmtrain schema | head -1`: the reader has what it wanted.
    } else if (errno == EPIPE) {
      return;
    } else if (errno != EINTR) {
      throw Error(ExitCode::cannot_write, std::string("cannot write to standard output: ") + std::strerror(errno));
    }
  }
}

}  // namespace

void write_result(std::string_view text) { write_bytes(painted_message(text)); }

void write_json(std::string_view json) { write_bytes(escaped_json(json)); }

void write_model_text(std::string_view text) { write_bytes(printable(text)); }

void write_script(std::string_view text) {
  if (::isatty(STDOUT_FILENO) != 0) return write_result(text);
  write_bytes(text);
}

TextStyle style_of_output() {
  // In fewer columns no table fits.
  constexpr std::size_t narrowest = 60;
  TextStyle style;
  if (::isatty(STDOUT_FILENO) == 0) return style;
  style.width = std::max(narrowest, terminal_columns(STDOUT_FILENO).value_or(page_width));
  if (wants_colours()) style.colour = TextColour::on;
  return style;
}

}  // namespace llmtrain::app
