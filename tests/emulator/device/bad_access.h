// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace emulated {

// From now on the process prints what it touched and exits with 86 when the host touches device memory, or pinned
// memory that a copy still uses.
void report_bad_accesses();

const char* protection();  // how memory is protected: "keys", "alias" or "none"

}  // namespace emulated
