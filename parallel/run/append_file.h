// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {

// A file that is only appended to, created if it does not exist. Each piece is written immediately, without a buffer,
// so that other processes see it; a piece that cannot be written completely is removed again. Every failure, such as a
// full disk, throws Error(cannot_write) that names the file and the reason.
class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path file) : file_(std::move(file)) {
    descriptor_ = ::open(file_.c_str(), O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644);
    if (descriptor_ < 0) fail("cannot be opened for writing", errno);
  }
  ~AppendFile() { ::close(descriptor_); }
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view piece) {
    const off_t end = ::lseek(descriptor_, 0, SEEK_END);
    while (!piece.empty()) {
      const auto written = ::write(descriptor_, piece.data(), piece.size());
      if (written < 0 && errno == EINTR) continue;
      if (written < 0) {
        const int reason = errno;
        [[maybe_unused]] const int taken_back = ::ftruncate(descriptor_, end);
        fail("cannot be written", reason);
      }
      piece.remove_prefix(static_cast<std::size_t>(written));
    }
  }

 private:
  [[noreturn]] void fail(std::string_view action, int reason) const {
    throw Error(ExitCode::cannot_write, file_.string() + ": " + std::string(action) + ": " + std::strerror(reason) +
                                            "; free some space, or choose another --run-dir");
  }

  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace llmtrain
