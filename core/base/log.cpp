// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>
#include <spdlog/spdlog.h>

#include <cstdlib>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"

namespace llmtrain {
namespace {

Logger console_logger() {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(wants_colours() ? spdlog::color_mode::automatic
                                                                                    : spdlog::color_mode::never);
  sink->set_pattern("%^%v%$");
  sink->set_level(spdlog::level::info);
  return Logger(std::make_shared<spdlog::logger>("llmtrain", sink));
}

}  // namespace

Logger::Logger(const std::string& name) : Logger(std::make_shared<spdlog::logger>(name)) {}

Logger::Logger(std::shared_ptr<spdlog::logger> target) : target_(std::move(target)) {
  // It passes everything; each sink has a level of its own, so that a file gets more than the console.
  target_->set_level(spdlog::level::trace);
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
  log().target().sinks().front()->set_level(level());
}

void log_to_file(const std::filesystem::path& file, Logger& logger) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    sink->set_level(spdlog::level::trace);
    logger.target().sinks().push_back(sink);
    // A killed run leaves its last lines.
    logger.target().flush_on(spdlog::level::info);
  } catch (const spdlog::spdlog_ex& failure) {
    throw Error(ExitCode::cannot_write, std::string("cannot open the log file: ") + failure.what());
  }
}

}  // namespace llmtrain
