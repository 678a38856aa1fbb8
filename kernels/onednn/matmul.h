// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain::kernels {

// A matrix product in oneDNN on plain row-major memory.
enum class MatmulElement { fp32, bf16 };

// An operand as it enters the product: element (i, j) is at data[i·row_stride + j·column_stride], one stride is 1.
struct MatmulOperand {
  const void* data = nullptr;
  std::int64_t row_stride = 0;
  std::int64_t column_stride = 0;
};

// The size that differs from call to call, if any.
enum class VaryingSize { none, m, k };

// destination[m, n] = left[m, k] · right[k, n] (+ bias[n]), or added to what the destination holds. Destination rows
// are destination_row_stride ≥ n apart; bias is contiguous. Supported: operands fp32 with destination fp32; operands
// bf16 with destination bf16 or fp32. Code is generated once per shape and kept; for all values of a varying size it is
// the same.
struct MatmulProblem {
  std::int64_t m = 0, n = 0, k = 0;
  VaryingSize varying = VaryingSize::none;
  MatmulElement operand_element = MatmulElement::fp32;
  MatmulElement destination_element = MatmulElement::fp32;
  bool accumulate = false;
  MatmulOperand left, right;
  const void* bias = nullptr;  // of the operands' element, or null
  void* destination = nullptr;
  std::int64_t destination_row_stride = 0;
};

// Whether libllmtrain_onednn.so and the oneDNN that it links can be loaded. False in sanitizer builds, which do not
// support loading it with RTLD_DEEPBIND (matmul_library.h); every caller has a path without it.
bool has_onednn();

// Blocking; uses the OpenMP threads, or only the calling one inside a parallel region. Bitwise reproducible for the
// same problem and thread count. Operands of bf16 are widened where the processor has no instructions for it
// (widened_matmul.h). Requires has_onednn(). Throws Error(internal_error) when oneDNN fails.
void onednn_matmul(const MatmulProblem& problem);

}  // namespace llmtrain::kernels
