// SPDX-License-Identifier: Apache-2.0
#include "core/base/append_file.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"

namespace llmtrain {

AppendFile::AppendFile(std::filesystem::path file)
    : file_(std::move(file)), descriptor_(open_own(file_, O_RDWR | O_APPEND | O_CREAT, file_)) {}

AppendFile::~AppendFile() { ::close(descriptor_); }

void AppendFile::append(std::string_view piece) {
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  while (!piece.empty()) {
    const auto written = ::write(descriptor_, piece.data(), piece.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const int reason = errno;
      // Half a row would run into the next one, and neither could be read.
      [[maybe_unused]] const int taken_back = ::ftruncate(descriptor_, end);
      fail("cannot be written", reason);
    }
    piece.remove_prefix(static_cast<std::size_t>(written));
  }
}

void AppendFile::end_line() {
  const off_t end = ::lseek(descriptor_, 0, SEEK_END);
  char last = '\n';
  if (end > 0 && ::pread(descriptor_, &last, 1, end - 1) < 0) fail("cannot be read", errno);
  if (last != '\n') append("\n");
}

void AppendFile::fail(std::string_view action, int reason) const {
  throw Error(ExitCode::cannot_write, fmt::format("{}: {}: {}; free some space, or choose another --run-dir",
                                                  file_.string(), action, std::strerror(reason)));
}

}  // namespace llmtrain
