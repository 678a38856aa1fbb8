// SPDX-License-Identifier: Apache-2.0
#include "kernels/moe/jitter.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/stack.h>

#include <vector>

#include "kernels/accumulation_type.h"
#include "kernels/cuda_operators/moe/jitter.h"
#include "kernels/random/philox.h"
#include "kernels/random/philox_words.h"

namespace llmtrain::kernels {
namespace {

// Elements below which starting a second thread costs more than it saves.
constexpr std::int64_t least_jittered_elements = 16384;

// Four words per counter.
template <class Value>
void jitter_elements(Value* x, std::int64_t count, const Jitter& jitter) {
  const std::int64_t first = jitter.first_element / 4, last = (jitter.first_element + count + 3) / 4;
#pragma omp parallel for schedule(static) if (count >= least_jittered_elements)
  for (std::int64_t counter = first; counter < last; ++counter) {
    const auto words = philox(jitter.key, static_cast<std::uint64_t>(counter), 0);
    for (std::int64_t word = 0; word < 4; ++word) {
      const std::int64_t i = 4 * counter + word - jitter.first_element;
      if (i < 0 || i >= count) continue;
      // Between −1 and 1, without either end. In float64: fp32 has too few digits for a word and would round the
      // outermost ones to the ends.
      const double uniform = (2.0 * words[static_cast<std::size_t>(word)] + 1) / 4294967296.0 - 1;
      x[i] = static_cast<Value>(static_cast<double>(x[i]) * (1 + jitter.amplitude * uniform));
    }
  }
}

// The same in tensor operators, with the same bits.
void jitter_tensor(at::Tensor& x, const Jitter& jitter) {
  const std::int64_t skipped = jitter.first_element % 4, counters = (skipped + x.numel() + 3) / 4;
  const auto words = philox_words(jitter.key, jitter.first_element / 4, counters, x.device());
  at::Tensor factors = at::stack(words, 1).view({-1}).narrow(0, skipped, x.numel()).to(at::kDouble);
  factors.mul_(2).add_(1).div_(4294967296.0).sub_(1).mul_(jitter.amplitude).add_(1);
  x.copy_(factors.view_as(x).mul_(x));
}

void jitter_here(at::Tensor& x, const Jitter& jitter) {
  if (!x.is_cpu()) {
    jitter_tensor(x, jitter);
  } else if (x.scalar_type() == at::kDouble) {
    jitter_elements(x.mutable_data_ptr<double>(), x.numel(), jitter);
  } else {
    jitter_elements(x.mutable_data_ptr<float>(), x.numel(), jitter);
  }
}

using Runs = std::vector<ElementRun>;

// `out` may be x.
void jitter_runs(const at::Tensor& x, const at::Tensor& out, const Jitter& jitter, const Runs& runs) {
  if (has_cuda_jitter(x) && out.scalar_type() == at::kFloat) return cuda_jitter(x, out, runs, jitter);
  if (!out.is_same(x)) out.copy_(x);
  const at::Tensor flat = out.view({-1});
  for (const ElementRun& run : runs) {
    at::Tensor part = flat.narrow(0, run.offset, run.length);
    jitter_here(part, {jitter.amplitude, jitter.key, run.first_element});
  }
}

Runs runs_of(const at::Tensor& x, const Jitter& jitter, const RowsAtHand& rows) {
  Runs runs;
  const std::int64_t width = x.size(1);
  for (const RowRun& run : rows.runs(x.size(0)))
    runs.push_back({run.row * width, run.length * width, jitter.first_element + run.whole_row * width});
  return runs;
}

}  // namespace

void jitter_(at::Tensor& x, const Jitter& jitter) {
  if (!jitter.active() || x.numel() == 0) return;
  jitter_runs(x, x, jitter, {{0, x.numel(), jitter.first_element}});
}

void jitter_rows_(at::Tensor& x, const Jitter& jitter, const RowsAtHand& rows) {
  if (!jitter.active() || x.numel() == 0) return;
  jitter_runs(x, x, jitter, runs_of(x, jitter, rows));
}

at::Tensor jittered_rows(const at::Tensor& x, const Jitter& jitter, const RowsAtHand& rows) {
  if (!jitter.active()) return x.to(accumulation_type(x), false, true);
  at::Tensor out = at::empty(x.sizes(), x.options().dtype(accumulation_type(x)));
  if (x.numel() > 0) jitter_runs(x, out, jitter, runs_of(x, jitter, rows));
  return out;
}

}  // namespace llmtrain::kernels
