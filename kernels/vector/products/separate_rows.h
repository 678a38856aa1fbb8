// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels::vector {

// y[rows, out] = x[rows, in] · weight[out, in]ᵀ (+ bias[out]), summed in fp32. A row of the weight is read once for all
// rows, and one thread has the whole sum of each element, in an order that depends on `in` alone: a row's results have
// the same bits whatever the number of threads and of rows beside it.
template <class Element>
struct SeparateRowsArrays {
  const Element* x;
  const Element* weight;
  const Element* bias;  // may be null
  Element* y;
  std::int64_t rows, in, out;
  std::int64_t x_stride, y_stride;  // elements from row to row
  float* packed;                    // [rows · in] of scratch memory, of more than one row
};

template <class Element>
using SeparateRowsLoop = void (*)(const SeparateRowsArrays<Element>& arrays);

template <int level, class Element>
SeparateRowsLoop<Element> separate_rows_loop_for();

}  // namespace llmtrain::kernels::vector
