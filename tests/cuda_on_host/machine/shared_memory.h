// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>

namespace cuda_on_host {

// Every byte of the next block's shared memory becomes 0xFF.
void renew_shared_memory();

// Names what a block has written behind an array, or is empty.
const char* overrun_of_shared_memory();

void free_shared_memory();

}  // namespace cuda_on_host
