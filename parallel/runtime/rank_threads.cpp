// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/rank_threads.h"

#include <cstdlib>

#include "core/base/error.h"
#include "core/base/log.h"

namespace llmtrain {

double watchdog_seconds(const LaunchRecipe& launch) {
  constexpr double for_ever = 1e9;
  return launch.watchdog_seconds > 0 ? launch.watchdog_seconds : for_ever;
}

LocalOptions rank_thread_options(const LaunchRecipe& launch) {
  LocalOptions options;
  options.watchdog_seconds = watchdog_seconds(launch);
  options.abandon = [](const Error& error) {
    log().error(error.what());
    // Not exit(): what it would destroy is in use.
    std::_Exit(static_cast<int>(error.code()));
  };
  return options;
}

}  // namespace llmtrain
