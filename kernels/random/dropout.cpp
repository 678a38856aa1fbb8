// SPDX-License-Identifier: Apache-2.0
#include "kernels/random/dropout.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/lt.h>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "kernels/cuda_operators/dropout.h"
#include "kernels/random/philox.h"
#include "kernels/random/philox_words.h"
#include "kernels/vector/dropout.h"
#include "kernels/vector/level.h"

namespace llmtrain::kernels {
namespace {

// Elements per thread below which starting another thread costs more than it saves.
constexpr std::int64_t mask_elements_per_thread = 8192;
// Elements of x for which LibTorch's operators make words at a time: enough that launching them takes no time beside
// it.
constexpr std::int64_t dropout_piece = std::int64_t{1} << 24;

// Words are integers, so comparing them with the ceiling of probability·2³² is exact. For a probability within 2⁻³² of
// 1 that ceiling is 2³², which 32 bits cannot hold: the largest word is then kept.
std::uint32_t threshold_of(double probability) {
  return static_cast<std::uint32_t>(std::min(std::ceil(probability * 4294967296.0), 4294967295.0));
}

vector::DropoutMask mask_of(const Dropout& dropout) {
  return {.key = dropout.key,
          .threshold = threshold_of(dropout.probability),
          .scale = static_cast<float>(1 / (1 - dropout.probability))};
}

template <class Value, class Kernel>
void fused_dropout(Kernel kernel, at::Tensor& x, const Dropout& dropout) {
  const vector::DropoutMask mask = mask_of(dropout);
  auto* values = static_cast<Value*>(x.data_ptr());
  at::parallel_for(0, x.numel(), mask_elements_per_thread, [&](std::int64_t begin, std::int64_t end) {
    // An element's mask depends on its index alone, so a thread can start anywhere.
    kernel(values + begin, end - begin, static_cast<std::uint64_t>(dropout.first_element + begin), mask);
  });
}

void reference_dropout(at::Tensor& x, const Dropout& dropout) {
  // A counter gives four words: begin with the one of x's first element and skip the words before it.
  const std::int64_t first = dropout.first_element / 4;
  const std::int64_t skipped = dropout.first_element % 4, count = (skipped + x.numel() + 3) / 4;
  at::Tensor dropped = at::empty({count, 4}, x.options().dtype(at::kBool));
  {
    const auto words = philox_words(dropout.key, first, count, x.device());
    const std::int64_t threshold = threshold_of(dropout.probability);
    for (std::size_t i = 0; i < words.size(); ++i) {
      at::Tensor of_word = dropped.select(1, static_cast<std::int64_t>(i));
      at::lt_out(of_word, words.at(i), threshold);
    }
  }
  // Scaled, so that the expected value stays the same, and filled rather than multiplied by 0: dropped infinities and
  // NaN become 0 as well.
  x.mul_(1 / (1 - dropout.probability)).masked_fill_(dropped.view({-1}).narrow(0, skipped, x.numel()).view_as(x), 0);
}

// In pieces, whose words take a bounded amount of memory.
void reference_dropout_in_pieces(at::Tensor& x, const Dropout& dropout) {
  const at::Tensor flat = x.view({-1});
  for (std::int64_t begin = 0; begin < flat.size(0); begin += dropout_piece) {
    at::Tensor piece = flat.narrow(0, begin, std::min(dropout_piece, flat.size(0) - begin));
    reference_dropout(piece, {dropout.probability, dropout.key, dropout.first_element + begin});
  }
}

// Checked on every path, so that an invalid mask fails the same way on every device.
void check(const at::Tensor& x, const Dropout& dropout) {
  if (!(dropout.probability >= 0 && dropout.probability < 1)) {
    throw Error(ExitCode::internal_error, "dropout: probability is " + std::to_string(dropout.probability) +
                                              "; it must be at least 0 and below 1");
  }
  if (!dropout.active()) return;
  if (dropout.first_element < 0 || !x.is_contiguous()) {
    throw Error(ExitCode::internal_error, "dropout: x must be contiguous and its first element must not be negative");
  }
  if (dropout.run < 0 || (dropout.run > 0 && (x.numel() % dropout.run != 0 || dropout.stride < dropout.run))) {
    throw Error(ExitCode::internal_error, "dropout: runs of " + std::to_string(dropout.run) + " elements, " +
                                              std::to_string(dropout.stride) + " apart, must fill x's " +
                                              std::to_string(x.numel()) + " and not overlap");
  }
}

// x is one run.
void drop_run(at::Tensor& x, const Dropout& dropout) {
  const auto kernels = vector::at_level([]<int level> { return vector::dropout_kernels_for<level>(); });
  if (x.device().is_cpu() && x.scalar_type() == at::kFloat) {
    fused_dropout<float>(kernels.fp32, x, dropout);
  } else if (x.device().is_cpu() && x.scalar_type() == at::kBFloat16) {
    fused_dropout<std::uint16_t>(kernels.bf16, x, dropout);
  } else {
    reference_dropout_in_pieces(x, dropout);
  }
}

using Runs = std::vector<ElementRun>;

// Consecutive here, but `stride` apart in the unsharded tensor whose indices decide the mask.
Runs runs_of(const at::Tensor& x, const Dropout& dropout) {
  if (dropout.run == 0) return {{0, x.numel(), dropout.first_element}};
  Runs runs;
  for (std::int64_t begin = 0; begin < x.numel(); begin += dropout.run)
    runs.push_back({begin, dropout.run, dropout.first_element + begin / dropout.run * dropout.stride});
  return runs;
}

// Rows of x that are neighbours in the whole sequences too; where samples are split by heads, a run also ends with its
// sample, after which the unsharded tensor has other ranks' heads.
Runs runs_of_rows(const at::Tensor& x, const Dropout& dropout, const RowsAtHand& rows) {
  Runs runs;
  const std::int64_t width = x.size(1);
  for (const RowRun& run : rows.runs(x.size(0))) {
    std::int64_t element = run.whole_row * width;
    const std::int64_t end = element + run.length * width, offset = run.row * width - element;
    while (element < end) {
      const std::int64_t sample = dropout.run == 0 ? end : dropout.run;
      const std::int64_t count = std::min(end - element, sample - element % sample);
      const std::int64_t place = element / sample * dropout.stride + element % sample;
      runs.push_back({element + offset, count, dropout.first_element + place});
      element += count;
    }
  }
  return runs;
}

// `residual` is undefined where nothing is added; `out` may be x.
void drop(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& out, const Dropout& dropout,
          const Runs& runs) {
  if (has_cuda_dropout(x)) return cuda_dropout(x, residual, out, runs, mask_of(dropout));
  if (!out.is_same(x)) out.copy_(x);
  const at::Tensor flat = out.view({-1});
  for (const ElementRun& run : runs) {
    at::Tensor part = flat.narrow(0, run.offset, run.length);
    drop_run(part, {dropout.probability, dropout.key, run.first_element});
  }
  if (residual.defined()) out.add_(residual);
}

void check_rows(const at::Tensor& x, const Dropout& dropout) {
  check(x, {dropout.probability, dropout.key, dropout.first_element});
}

}  // namespace

std::uint64_t dropout_key(std::int64_t seed, std::int64_t step, std::uint64_t site) {
  const auto words = philox(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(step), site);
  return words[0] | static_cast<std::uint64_t>(words[1]) << 32;
}

void dropout_(at::Tensor& x, const Dropout& dropout) {
  check(x, dropout);
  if (!dropout.active() || x.numel() == 0) return;
  drop(x, {}, x, dropout, runs_of(x, dropout));
}

void dropout_rows_(at::Tensor& x, const Dropout& dropout, const RowsAtHand& rows) {
  check_rows(x, dropout);
  if (!dropout.active() || x.numel() == 0) return;
  drop(x, {}, x, dropout, runs_of_rows(x, dropout, rows));
}

at::Tensor dropped_rows(const at::Tensor& x, const Dropout& dropout, const RowsAtHand& rows) {
  check_rows(x, dropout);
  if (!dropout.active() || x.numel() == 0) return x;
  at::Tensor out = at::empty_like(x);
  drop(x, {}, out, dropout, runs_of_rows(x, dropout, rows));
  return out;
}

void add_dropped_rows_(at::Tensor& x, const at::Tensor& residual, const Dropout& dropout, const RowsAtHand& rows) {
  check_rows(x, dropout);
  if (x.numel() == 0) return;
  if (!dropout.active()) {
    x.add_(residual);
  } else {
    drop(x, residual, x, dropout, runs_of_rows(x, dropout, rows));
  }
}

}  // namespace llmtrain::kernels
