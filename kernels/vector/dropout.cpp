// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/dropout.h"

#include "kernels/vector/math.h"
#include "kernels/vector/random_words.h"

namespace llmtrain::kernels::vector {
namespace {

// Words are generated in batches of counters, a loop that vectorises, and then applied in a second loop. Their 256
// words stay in the first-level cache between the two.
constexpr int counters = 64;
constexpr int words_per_block = 4 * counters;

template <class Value>
void dropout(Value* x, std::int64_t n, std::uint64_t first_element, const DropoutMask& mask) {
  std::uint32_t words[words_per_block];
  std::uint64_t counter = first_element / 4;
  // Four elements share a counter; the first batch may start within one.
  auto skipped = static_cast<std::int64_t>(first_element % 4);
  while (n > 0) {
    fill_words(mask.key, counter, counters, words);
    const std::int64_t length = n < words_per_block - skipped ? n : words_per_block - skipped;
    for (std::int64_t i = 0; i < length; ++i) {
      const float kept = to_float(x[i]) * mask.scale;
      // Chosen rather than multiplied by 0: a dropped infinity or NaN becomes 0, and the loop has no branch.
      store(x[i], words[skipped + i] < mask.threshold ? 0.0F : kept);
    }
    x += length;
    n -= length;
    counter += counters;
    skipped = 0;
  }
}

}  // namespace

template <>
DropoutKernels dropout_kernels_for<LLMTRAIN_VECTOR_LEVEL>() {
  return {dropout<float>, dropout<std::uint16_t>};
}

}  // namespace llmtrain::kernels::vector
