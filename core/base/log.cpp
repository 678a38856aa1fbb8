// SPDX-License-Identifier: Apache-2.0
#include "core/base/log.h"

#include <spdlog/sinks/basic_file_sink.h>
#include <spdlog/sinks/stdout_color_sinks.h>

#include <cstdlib>
#include <memory>

#include "core/base/error.h"

namespace llmtrain {
namespace {

std::shared_ptr<spdlog::logger> make_console_logger() {
  auto sink = std::make_shared<spdlog::sinks::stderr_color_sink_mt>(wants_colours() ? spdlog::color_mode::automatic
                                                                                    : spdlog::color_mode::never);
  sink->set_pattern("%^%v%$");
  auto logger = std::make_shared<spdlog::logger>("llmtrain", sink);
  // The logger passes everything; each sink has a level of its own, so that the file gets more than the console.
  logger->set_level(spdlog::level::trace);
  sink->set_level(spdlog::level::info);
  return logger;
}

}  // namespace

bool wants_colours() {
  const char* value = std::getenv("NO_COLOR");
  return value == nullptr || *value == '\0';
}

spdlog::logger& log() {
  static const std::shared_ptr<spdlog::logger> logger = make_console_logger();
  return *logger;
}

void set_verbosity(Verbosity verbosity) {
  const auto level = [verbosity] {
    switch (verbosity) {
      case Verbosity::quiet:
        return spdlog::level::warn;
      case Verbosity::normal:
        return spdlog::level::info;
      case Verbosity::verbose:
        return spdlog::level::debug;
    }
    return spdlog::level::info;
  };
  log().sinks().front()->set_level(level());
}

void log_to_file(const std::filesystem::path& file, spdlog::logger& logger) {
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    sink->set_level(spdlog::level::trace);
    logger.sinks().push_back(sink);
    // A killed run leaves its last lines.
    logger.flush_on(spdlog::level::info);
  } catch (const spdlog::spdlog_ex& failure) {
    throw Error(ExitCode::cannot_write, std::string("cannot open the log file: ") + failure.what());
  }
}

}  // namespace llmtrain
