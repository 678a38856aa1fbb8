// SPDX-License-Identifier: Apache-2.0
#include "kernels/random/random.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>

#include "kernels/vector/level.h"
#include "kernels/vector/random.h"

namespace llmtrain::kernels {
namespace {

// Elements per thread below which starting another thread costs more than it saves.
constexpr std::int64_t numbers_per_thread = 8192;

template <class Value, class Kernel>
void fill_on_cpu(Kernel kernel, at::Tensor& x, const vector::NormalSequence& sequence, std::int64_t first_element) {
  auto* values = x.data_ptr<Value>();
  at::parallel_for(0, x.numel(), numbers_per_thread, [&](std::int64_t begin, std::int64_t end) {
    kernel(values + begin, end - begin, static_cast<std::uint64_t>(first_element + begin), sequence);
  });
}

}  // namespace

void fill_normal_(at::Tensor& x, std::uint64_t key, double standard_deviation, std::int64_t first_element) {
  const vector::NormalSequence sequence{.key = key, .standard_deviation = standard_deviation};
  const auto kernels = vector::at_level([]<int level> { return vector::random_kernels_for<level>(); });
  // float64 is written as computed, for tests that need all digits.
  const bool flat = x.device().is_cpu() && x.is_contiguous();
  if (flat && x.scalar_type() == at::kFloat) return fill_on_cpu<float>(kernels.fp32, x, sequence, first_element);
  if (flat && x.scalar_type() == at::kDouble) return fill_on_cpu<double>(kernels.fp64, x, sequence, first_element);
  // Other types and devices get rounded copies of the CPU's numbers, so that weights start equal everywhere.
  at::Tensor values = at::empty(x.sizes(), at::kFloat);
  fill_on_cpu<float>(kernels.fp32, values, sequence, first_element);
  x.copy_(values);
}

void fill_normal_block_(at::Tensor& x, std::uint64_t key, double standard_deviation, std::int64_t first_element,
                        std::int64_t row_stride) {
  const std::int64_t rows = x.size(0);
  const std::int64_t least_rows = std::max<std::int64_t>(1, numbers_per_thread / std::max<std::int64_t>(1, x.size(1)));
  // A row is short, so threads divide the rows and fill_normal_ runs serially within one of them.
  at::parallel_for(0, rows, least_rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t r = begin; r < end; ++r) {
      at::Tensor row = x.select(0, r);
      fill_normal_(row, key, standard_deviation, first_element + r * row_stride);
    }
  });
}

}  // namespace llmtrain::kernels
