// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

namespace llmtrain::app {

// The process that ModelProcess starts: loads what the server asks for and answers it, until it closes the socket.
// `arguments` are model_word and the socket's number. Returns the exit code; errors are told to the server, which says
// them. Throws Error(bad_recipe) where it was not started so.
int run_model_process(const std::vector<std::string>& arguments);

}  // namespace llmtrain::app
