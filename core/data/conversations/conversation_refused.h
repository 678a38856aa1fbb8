// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <stdexcept>
#include <string>

namespace llmtrain {

// Why a record is no conversation that can be written out: what follows "line 3 " in a message.
class ConversationRefused : public std::runtime_error {
 public:
  explicit ConversationRefused(const std::string& reason) : std::runtime_error(reason) {}
};

}  // namespace llmtrain
