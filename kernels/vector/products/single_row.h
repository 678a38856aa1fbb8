// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// y[out] = weight[out, in] · x[in] (+ bias[out]), summed in fp32. A row of the weight is read once and one thread has
// its whole sum, so the result does not depend on the number of threads.
template <class Element>
struct SingleRowArrays {
  const Element* x;
  const Element* weight;
  const Element* bias;  // may be null
  Element* y;
  std::int64_t in, out;
};

template <class Element>
using SingleRowLoop = void (*)(const SingleRowArrays<Element>& arrays);

template <int level, class Element>
SingleRowLoop<Element> single_row_loop_for();

}  // namespace llmtrain::kernels::vector
