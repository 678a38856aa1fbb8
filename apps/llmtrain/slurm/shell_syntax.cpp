// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/slurm/shell_syntax.h"

#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "core/base/error.h"

namespace llmtrain::app {
namespace {

[[noreturn]] void fail_to_check(const std::string& what) {
  throw Error(ExitCode::internal_error, what + ": " + std::strerror(errno));
}

// A file in memory: what bash reads and says is of any length, and neither of the two waits for the other.
class MemoryFile {
 public:
  MemoryFile() : file_(::memfd_create("llmtrain", MFD_CLOEXEC)) {
    if (file_ < 0) fail_to_check("a file in memory cannot be made");
  }
  ~MemoryFile() { ::close(file_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  int descriptor() const { return file_; }

  void write(std::string_view text) const {
    while (!text.empty()) {
      const ssize_t written = ::write(file_, text.data(), text.size());
      if (written < 0) fail_to_check("a file in memory cannot be written");
      text.remove_prefix(static_cast<std::size_t>(written));
    }
    ::lseek(file_, 0, SEEK_SET);
  }

  std::string first_line() const {
    std::array<char, 512> buffer{};
    const ssize_t size = ::pread(file_, buffer.data(), buffer.size(), 0);
    const std::string text(buffer.data(), static_cast<std::size_t>(size < 0 ? 0 : size));
    return text.substr(0, text.find('\n'));
  }

 private:
  int file_;
};

[[noreturn]] void become_bash(const MemoryFile& script, const MemoryFile& said) {
  ::dup2(script.descriptor(), STDIN_FILENO);
  ::dup2(said.descriptor(), STDOUT_FILENO);
  ::dup2(said.descriptor(), STDERR_FILENO);
  ::setenv("LC_ALL", "C", 1);
  ::execlp("bash", "bash", "--norc", "-n", static_cast<char*>(nullptr));
  ::_exit(127);
}

}  // namespace

std::string complaint_of_bash(const std::vector<std::string>& lines) {
  if (lines.empty()) return "";
  std::string text;
  for (const std::string& line : lines) text += line + "\n";
  const MemoryFile script, said;
  script.write(text);
  const pid_t process = ::fork();
  if (process < 0) fail_to_check("bash cannot be started");
  if (process == 0) become_bash(script, said);
  int status = 0;
  while (::waitpid(process, &status, 0) < 0)
    if (errno != EINTR) fail_to_check("bash cannot be waited for");
  // It only warns of a document whose end is missing, which would swallow the rest of a script.
  std::string complaint = said.first_line();
  constexpr std::string_view speaker = "bash: ";
  return complaint.starts_with(speaker) ? complaint.substr(speaker.size()) : complaint;
}

}  // namespace llmtrain::app
