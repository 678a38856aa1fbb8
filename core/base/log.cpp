// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <spdlog/pattern_formatter.h>
#include <spdlog/sinks/base_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <memory>
#include <mutex>
#include <utility>

#include "core/base/append_file.h"
#include "core/base/printable.h"

namespace llmtrain {
namespace {

// The one place that marks what is shown as a warning; files have the level of each line.
class WarningMark : public spdlog::custom_flag_formatter {
 public:
  void format(const spdlog::details::log_msg& message, const std::tm&, spdlog::memory_buf_t& line) override {
    constexpr std::string_view mark = "warning: ";
    if (message.level == spdlog::level::warn) line.append(mark.data(), mark.data() + mark.size());
  }
  std::unique_ptr<custom_flag_formatter> clone() const override { return std::make_unique<WarningMark>(); }
};

Logger console_logger() {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(wants_colours() ? spdlog::color_mode::automatic
                                                                                    : spdlog::color_mode::never);
  auto formatter = std::make_unique<spdlog::pattern_formatter>();
  formatter->add_flag<WarningMark>('*').set_pattern("%^%*%v%$");
  sink->set_formatter(std::move(formatter));
  sink->set_level(spdlog::level::info);
  return Logger(std::make_shared<spdlog::logger>("llmtrain", sink));
}

// Each line is in the file before the next one begins, so that a run which is killed leaves all of them.
class FileSink : public spdlog::sinks::base_sink<std::mutex> {
 public:
  explicit FileSink(const std::filesystem::path& file) : path_(file), file_(file) { file_.end_line(); }
  const std::filesystem::path& path() const { return path_; }

 private:
  void sink_it_(const spdlog::details::log_msg& message) override {
    spdlog::memory_buf_t line;
    formatter_->format(message, line);
    file_.append({line.data(), line.size()});
  }
  void flush_() override {}

  std::filesystem::path path_;
  AppendFile file_;
};

}  // namespace

Logger::Logger(const std::string& name) : Logger(std::make_shared<spdlog::logger>(name)) {}

Logger::Logger(std::shared_ptr<spdlog::logger> target) : target_(std::move(target)) {
  // It passes everything; each sink has a level of its own, so that a file gets more than the console.
  target_->set_level(spdlog::level::trace);
  // A log that cannot be written, on a full disk, say, ends no run.
  target_->set_error_handler([](const std::string& failure) {
    std::fputs((message_text("a line of the log is lost: " + failure) + "\n").c_str(), stderr);
  });
}

void Logger::debug(std::string_view text) { target_->debug(message_text(text)); }
void Logger::info(std::string_view text) { target_->info(message_text(text)); }
void Logger::warn(std::string_view text) { target_->warn(message_text(text)); }
void Logger::error(std::string_view text) { target_->error(message_text(text)); }

void Logger::flush() { target_->flush(); }

bool wants_colours() {
  const char* value = std::getenv("NO_COLOR");
  return value == nullptr || *value == '\0';
}

Logger& log() {
  static Logger logger = console_logger();
  return logger;
}

void set_verbosity(Verbosity verbosity) {
  const auto level = [verbosity] {
    switch (verbosity) {
      case Verbosity::errors:
        return spdlog::level::err;
      case Verbosity::quiet:
        return spdlog::level::warn;
      case Verbosity::normal:
        return spdlog::level::info;
      case Verbosity::verbose:
        return spdlog::level::debug;
    }
    return spdlog::level::info;
  };
  // log_to_file() puts files before it.
  log().target().sinks().back()->set_level(level());
}

void log_to_file(const std::filesystem::path& file, Logger& logger) {
  const auto is_of_file = [&](const spdlog::sink_ptr& each) {
    const auto* const own = dynamic_cast<const FileSink*>(each.get());
    return own != nullptr && own->path() == file;
  };
  if (std::ranges::any_of(logger.target().sinks(), is_of_file)) return;
  const auto sink = std::make_shared<FileSink>(file);
  sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
  sink->set_level(spdlog::level::trace);
  // Before the console: what has been shown is in the file.
  auto& sinks = logger.target().sinks();
  sinks.insert(sinks.begin(), sink);
}

}  // namespace llmtrain
