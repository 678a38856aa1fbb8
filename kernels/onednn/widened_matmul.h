// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/onednn/matmul.h"

namespace llmtrain::kernels {

// A product of bf16 operands where the processor has no instructions for it: blocks of the operands are widened to
// fp32, multiplied by `multiply`, which takes problems of fp32, and rounded where the destination is bf16. Widening is
// exact and sums are fp32, so that only the order of the sums differs from a processor that has them. Each calling
// thread keeps at most 6 MiB. Blocking; bitwise reproducible where `multiply` is.
void widened_matmul(const MatmulProblem& problem, void (*multiply)(const MatmulProblem& problem));

}  // namespace llmtrain::kernels
