// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/finite_values.h"

#include <ATen/ops/aminmax.h>

#include <algorithm>
#include <cmath>

#include "core/base/error.h"

namespace llmtrain {

double largest_magnitude(const at::Tensor& values) {
  if (values.numel() == 0) return 0;
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
