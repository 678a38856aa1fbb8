// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain::kernels {

// The types of elements that a GPU's kernels take.
enum class KernelElement { fp32, bf16, fp16 };

}  // namespace llmtrain::kernels
