// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/finite_values.h"

#include <ATen/ops/aminmax.h>

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "core/base/error.h"
#include "core/checkpoint/finite_weights.h"
#include "core/huggingface/tensor_dtype.h"

namespace llmtrain {

double largest_magnitude(const at::Tensor& values) {
  if (values.numel() == 0) return 0;
  // Without memory for results, which a step's plan would have to count.
  if (values.is_cpu() && values.is_contiguous()) {
    const auto* bytes = static_cast<const std::byte*>(values.const_data_ptr());
    if (const auto largest = largest_magnitude(dtype_name(values.scalar_type()), {bytes, values.nbytes()}))
      return *largest;
  }
  const auto [least, most] = at::aminmax(values);
  const double low = least.item<double>(), high = most.item<double>();
  return std::isnan(low) ? low : std::max(std::abs(low), std::abs(high));
}

void require_finite(const at::Tensor& values, const std::string& what) {
  if (!std::isfinite(largest_magnitude(values)))
    throw Error(ExitCode::bad_data, what +
                                        " has values that are NaN or infinite, which no training mends; take the "
                                        "weights from before they diverged, or download them again");
}

}  // namespace llmtrain
