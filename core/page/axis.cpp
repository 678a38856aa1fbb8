// SPDX-License-Identifier: Apache-2.0
#include "core/page/axis.h"

#include <cmath>
#include <initializer_list>

namespace llmtrain {

double round_step(double least) {
  const double power = std::pow(10, std::floor(std::log10(least)));
  for (const double factor : {1.0, 2.0, 5.0})
    if (factor * power >= least) return factor * power;
  return 10 * power;
}

}  // namespace llmtrain
