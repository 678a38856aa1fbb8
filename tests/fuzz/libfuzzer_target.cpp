// SPDX-License-Identifier: Apache-2.0
// libFuzzer's entry; LLMTRAIN_FUZZ_INPUT is one of the functions of fuzz_inputs.h.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/fuzz_inputs.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  llmtrain::fuzz::LLMTRAIN_FUZZ_INPUT({reinterpret_cast<const char*>(data), size});
  return 0;
}
