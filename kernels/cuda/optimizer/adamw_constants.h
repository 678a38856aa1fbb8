// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain::kernels {

// The numbers of a step of AdamW (kernels/adamw.h), each computed in float64 and rounded once.
struct AdamwConstants {
  float gradient_scale;
  float decay;  // 1 − learning rate · weight decay
  float one_minus_beta1;
  float beta2;
  float one_minus_beta2;
  float root_of_correction;  // √(1 − beta2^step)
  float eps;
  float step_size;  // learning rate / (1 − beta1^step)
};

}  // namespace llmtrain::kernels
