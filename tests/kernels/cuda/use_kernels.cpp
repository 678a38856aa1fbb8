// SPDX-License-Identifier: Apache-2.0
// Gives the tests of this program the kernels that a run on a GPU has.
#include "tests/emulator/cuda/kernels.h"

namespace llmtrain::kernels {
namespace {

[[maybe_unused]] const bool are_used = [] {
  use_kernels(emulated::table_of_kernels);
  return true;
}();

}  // namespace
}  // namespace llmtrain::kernels
