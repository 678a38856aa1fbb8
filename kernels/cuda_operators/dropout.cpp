// SPDX-License-Identifier: Apache-2.0
#include "kernels/cuda_operators/dropout.h"

#include <c10/core/DeviceGuard.h>

#include <cstddef>

#include "kernels/cuda/kernel_table.h"
#include "kernels/cuda/tensor_operands.h"

namespace llmtrain::kernels {
namespace {

// How many of the runs from `begin` on are alike: of one length, and each as far from the one before it.
std::size_t alike_from(const std::vector<DropoutRun>& runs, std::size_t begin) {
  std::size_t end = begin + 1;
  const auto distance = [&](std::size_t i) { return runs[i].first_element - runs[i - 1].first_element; };
  while (end < runs.size() && runs[end].length == runs[begin].length && distance(end) == distance(begin + 1)) ++end;
  return end - begin;
}

void* moved(void* begin, std::int64_t bytes) { return begin == nullptr ? nullptr : static_cast<char*>(begin) + bytes; }

}  // namespace

bool has_cuda_dropout(const at::Tensor& x) { return has_kernels(x); }

void cuda_dropout(const at::Tensor& x, const at::Tensor& residual, const at::Tensor& out,
                  const std::vector<DropoutRun>& runs, const vector::DropoutMask& mask) {
  const c10::DeviceGuard guard(x.device());
  const auto bytes = static_cast<std::int64_t>(x.element_size());
  for (std::size_t begin = 0; begin < runs.size();) {
    const std::size_t alike = alike_from(runs, begin);
    const DropoutRun& run = runs[begin];
    kernel_table()->dropout->drop(
        {.element = *element_of(x),
         .x = moved(x.data_ptr(), bytes * run.offset),
         .residual = moved(residual.defined() ? residual.data_ptr() : nullptr, bytes * run.offset),
         .out = moved(out.data_ptr(), bytes * run.offset),
         .length = run.length,
         .runs = static_cast<std::int64_t>(alike),
         .first = run.first_element,
         .stride = alike > 1 ? runs[begin + 1].first_element - run.first_element : 0,
         .key = mask.key,
         .threshold = mask.threshold,
         .scale = mask.scale},
        stream_of(x));
    begin += alike;
  }
}

}  // namespace llmtrain::kernels
