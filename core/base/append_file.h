// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string_view>

namespace llmtrain {

// A file that is only appended to, created if it does not exist. Each piece is written immediately, without a buffer,
// so that other processes see it and a killed one loses nothing; a piece that cannot be written completely is removed
// again. A link of its name is not followed. Every failure, such as a full disk, throws Error(cannot_write) that names
// the file and the reason.
class AppendFile {
 public:
  explicit AppendFile(std::filesystem::path file);
  ~AppendFile();
  AppendFile(const AppendFile&) = delete;
  AppendFile& operator=(const AppendFile&) = delete;

  void append(std::string_view piece);
  // Ends a last line that a process which died has left without its end.
  void end_line();

 private:
  [[noreturn]] void fail(std::string_view action, int reason) const;

  std::filesystem::path file_;
  int descriptor_ = -1;
};

}  // namespace llmtrain
