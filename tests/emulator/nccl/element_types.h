// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nccl.h>

#include <cstddef>

namespace emulated {

std::size_t type_bytes(ncclDataType_t type);

// Combines `bytes` of elements into `sum`: their sum, maximum or minimum. Numbers of 8 and 16 bits are rounded after
// each step; NCCL rounds elsewhere. Throws Fault for a type or operation that is not emulated.
void combine(char* sum, const char* other, std::size_t bytes, ncclDataType_t type, ncclRedOp_t operation);

}  // namespace emulated
