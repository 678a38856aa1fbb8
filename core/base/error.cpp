// SPDX-License-Identifier: Apache-2.0
#include "core/base/error.h"

namespace llmtrain {

Error::Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}

}  // namespace llmtrain
