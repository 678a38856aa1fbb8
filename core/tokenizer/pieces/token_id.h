// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain {

using TokenId = std::int32_t;

}  // namespace llmtrain
