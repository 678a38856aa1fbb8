// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace llmtrain {

// Exit codes of the program; docs/command-line.md lists them for users.
enum class ExitCode {
  done = 0,
  internal_error = 1,
  bad_recipe = 2,      // also wrong usage of the command line
  bad_data = 65,       // malformed or damaged data or checkpoint
  missing_input = 66,  // a file that a recipe or a command names does not exist
  rank_lost = 69,
  cannot_write = 73,
  stopped = 75,       // on request, with a checkpoint saved: the job can be requeued
  interrupted = 130,  // by a second request, without a checkpoint
};

// The one exception type that reaches the user. `what()` is the whole message: it names the field or file, the value
// and the rule, and says what to do. Anything else that escapes is an internal error.
class Error : public std::runtime_error {
 public:
  Error(ExitCode code, const std::string& message) : std::runtime_error(message), code_(code) {}
  ExitCode code() const noexcept { return code_; }

 private:
  ExitCode code_;
};

}  // namespace llmtrain
