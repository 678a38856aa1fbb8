// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/standard_streams.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstring>
#include <string>

#include "core/base/error.h"
#include "core/base/log.h"

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

void write_result(std::string_view text) {
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

TextColour colour_of_output() {
  return ::isatty(STDOUT_FILENO) != 0 && wants_colours() ? TextColour::on : TextColour::off;
}

}  // namespace llmtrain::app
