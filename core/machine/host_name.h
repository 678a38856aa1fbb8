// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

namespace llmtrain {

// The name of this machine; "localhost" where it has none.
std::string host_name();

}  // namespace llmtrain
