// SPDX-License-Identifier: Apache-2.0
#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {

std::vector<Combination> precision_combinations() {
  return {
      {R"({"precision": {"tf32": true}, "cluster": {"device": "cpu"}})",
       "/precision/tf32",
       {"multiplies fp32 exactly", "\"cuda\" or \"auto\"", "did you mean false?"}},
      {R"({"precision": {"stochastic_rounding": true, "fp8_level": "O0"}})",
       "/precision/stochastic_rounding",
       {"an fp32 copy of the weights", "\"O1\", \"O2\" or \"O3\"", "did you mean false?"}},
      {R"({"precision": {"stochastic_rounding": true, "fp8_level": "O1"}})", "", {}},
      {R"({"precision": {"fp8_level": "O0", "product_format": "mxfp4"}})", "", {}},
      {R"({"precision": {"fp8_level": "O1", "product_format": "nvfp4"}})",
       "/precision/product_format",
       {"of products alone", "did you mean \"fp8\"?"}},
      {R"({"precision": {"fp8_level": "O0", "product_format": "nvfp4", "fp8_scaling": {"method": "delayed"}}})",
       "/precision/product_format",
       {"scales of their own blocks", "did you mean \"fp8\"?"}},
      {R"({"model": {"lora": {"base": "nf4"}}})", "", {}},
      {R"({"model": {"lora": {"base": "nf4"}}, "precision": {"fp8_level": "O0"}})",
       "/model/lora/base",
       {"multiplied in the compute type", "did you mean \"compute\"?"}},
      {R"({"precision": {"loss_scale": {"initial": 1000}}})",
       "/precision/loss_scale/initial",
       {"1000 rounds gradients", "power of two", "did you mean 512?"}},
  };
}

}  // namespace llmtrain::test
