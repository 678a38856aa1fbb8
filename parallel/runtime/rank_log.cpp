// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/training_loop.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/sinks/basic_file_sink.h>

#include <filesystem>

#include "core/base/error.h"

namespace llmtrain {

RankLog::RankLog(const RunRequest& request, int rank) {
  const auto file = std::filesystem::path(request.recipe().log.directory) / "log" / fmt::format("rank-{:05}.log", rank);
  try {
    auto sink = std::make_shared<spdlog::sinks::basic_file_sink_mt>(file.string());
    sink->set_pattern("%Y-%m-%dT%H:%M:%S.%e%z %l %v");
    logger_ = std::make_shared<spdlog::logger>("rank", sink);
  } catch (const spdlog::spdlog_ex& failure) {
    throw Error(ExitCode::cannot_write, std::string("cannot open the log file: ") + failure.what());
  }
  logger_->set_level(spdlog::level::trace);
  logger_->flush_on(spdlog::level::info);
}

}  // namespace llmtrain
