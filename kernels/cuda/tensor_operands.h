// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <optional>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

// How a tensor is given to the kernels of the table.

// None for types that they do not take.
std::optional<KernelElement> element_of(const at::Tensor& x);

// Whether x is on a GPU, of a type that kernels take, and the table is there, as what follows needs it.
bool has_kernels(const at::Tensor& x);

// The stream of x's device on which the calling thread enqueues its work.
void* stream_of(const at::Tensor& x);

}  // namespace llmtrain::kernels
