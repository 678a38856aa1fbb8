// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/dropout.h"

#include <c10/core/DeviceGuard.h>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {
namespace {

void* moved(void* begin, std::int64_t bytes) { return begin == nullptr ? nullptr : static_cast<char*>(begin) + bytes; }

}  // namespace

bool has_cuda_dropout(const at::Tensor& x) { return has_kernels(x); }

void cuda_dropout(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& out,
                  const std::vector<ElementRun>& runs, const vector::DropoutMask& mask) {
  const c10::DeviceGuard guard(x.device());
  const auto bytes = static_cast<std::int64_t>(x.element_size());
  for_alike(runs, [&](const ElementRun& run, std::int64_t count, std::int64_t stride) {
    kernel_table()->dropout->drop(
        {.element = *element_of(x),
         .x = moved(x.data_ptr(), bytes * run.offset),
         .residual = moved(residual.defined() ? residual.data_ptr() : nullptr, bytes * run.offset),
         .out = moved(out.data_ptr(), bytes * run.offset),
         .length = run.length,
         .runs = count,
         .first = run.first_element,
         .stride = stride,
         .key = mask.key,
         .threshold = mask.threshold,
         .scale = mask.scale},
        stream_of(x));
  });
}

}  // namespace llmtrain::kernels
