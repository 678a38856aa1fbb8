// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <spdlog/logger.h>
#include <spdlog/sinks/ostream_sink.h>

#include <memory>
#include <sstream>
#include <string>
#include <vector>

#include "core/base/log.h"

namespace llmtrain::test {

// Captures what is logged during its lifetime, instead of the console.
class CapturedLog {
 public:
  CapturedLog() : former_(log().target().sinks()) {
    log().target().sinks() = {std::make_shared<spdlog::sinks::ostream_sink_mt>(messages_)};
  }
  ~CapturedLog() { log().target().sinks() = former_; }
  CapturedLog(const CapturedLog&) = delete;
  CapturedLog& operator=(const CapturedLog&) = delete;

  std::string text() const { return messages_.str(); }

 private:
  std::ostringstream messages_;
  std::vector<spdlog::sink_ptr> former_;
};

}  // namespace llmtrain::test
