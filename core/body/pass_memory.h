// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/arena/buffer.h"
#include "core/body/body.h"
#include "core/body/kept_tensors.h"

namespace llmtrain::body {

struct ElementBytes {
  double computed = 4;  // of activations
  double sums = 4;      // of sums and statistics
};

double statistic_bytes(const Statistic& statistic, const ElementBytes& bytes);

// What a forward and the backward behind it allocate (core/body/run), with lifespans. A body of n steps has 2·n + 1
// moments: its steps forward, the same backward from the last on, and the end, when the gradients of its inputs are all
// there. The inputs, fields and parameters, the sums of the parameters' gradients and the gradients of the outputs are
// the caller's, and not among them; outputs are while the forward runs. Where primitives may copy an operand whose
// elements lie in another order, the copy counts: an upper bound.
struct PassMemory {
  std::vector<Buffer> buffers;
  std::int64_t peak = 0;        // bytes: the largest sum at a moment
  std::size_t peak_moment = 0;  // the first of those

  // Which step runs then, of a body of so many; the end counts as the backward of the first.
  std::size_t peak_step(std::size_t steps) const;
};

PassMemory pass_memory(const Body& body, Keeping keeping, const ElementBytes& bytes);
// The most of a forward that keeps nothing, likewise.
std::int64_t forward_memory(const Body& body, const ElementBytes& bytes);

}  // namespace llmtrain::body
