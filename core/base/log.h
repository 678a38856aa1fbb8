// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/fmt/fmt.h>

#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <utility>

namespace spdlog {
class logger;
}

namespace llmtrain {

// Lines of text for people, by their weight; with spdlog, whose headers stay out of this one: every source that writes
// a line would compile all of its formatting again, which takes seconds. May be used by several threads.
class Logger {
 public:
  // Writes nowhere until log_to_file().
  explicit Logger(const std::string& name);
  explicit Logger(std::shared_ptr<spdlog::logger> target);

  template <class... Arguments>
  void debug(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    debug(fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  template <class... Arguments>
  void info(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    info(fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  template <class... Arguments>
  void warn(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    warn(fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  template <class... Arguments>
  void error(fmt::format_string<Arguments...> format, Arguments&&... arguments) {
    error(fmt::format(format, std::forward<Arguments>(arguments)...));
  }
  // The text with its braces. Messages name what others have written, so all of them become message_text(), on the
  // console and in files, which people read on terminals.
  void debug(std::string_view text);
  void info(std::string_view text);
  void warn(std::string_view text);
  void error(std::string_view text);

  void flush();

  // Where the lines go.
  spdlog::logger& target() { return *target_; }

 private:
  std::shared_ptr<spdlog::logger> target_;
};

// What the console shows: errors; quiet: also warnings; normal: also information; verbose: also debug lines.
enum class Verbosity { errors, quiet, normal, verbose };

// Whether people want colours on terminals: not where NO_COLOR is set to anything but an empty text (no-color.org).
bool wants_colours();

// The program's logger, which begins warnings with "warning: ": messages go to standard error, results (which are not
// log lines) to standard output. Colours only on a terminal and where they are wanted.
Logger& log();

void set_verbosity(Verbosity verbosity);

// From now on what is logged to `logger` also goes to `file` (appended, every level, with times), each line at once and
// before the console shows it: a process that is killed leaves all of them. A last line without its end, of a machine
// that failed, is ended first. A link of that name is refused. A file that the logger has
// already gets each line once. Throws Error(cannot_write).
void log_to_file(const std::filesystem::path& file, Logger& logger = log());

}  // namespace llmtrain
