// SPDX-License-Identifier: Apache-2.0
#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {

std::vector<Combination> slice_combinations() {
  return {
      {R"({"parallel": {"expert_tensor": "auto"}})",
       "/parallel/expert_tensor",
       {"no experts to split", "without model.moe", "did you mean 1?"}},
      {R"({"model": {"moe": {"experts": 8}}, "parallel": {"expert_tensor": "auto", "zero_stage": 3}})",
       "/parallel/expert_tensor",
       {"into how many slices", "parallel.expert_slices"}},
      {R"({"model": {"moe": {"experts": 8}}, "training": {"token_dropping": {"start": 64, "steps": 10}},
           "parallel": {"expert_tensor": "auto", "expert_slices": 2, "zero_stage": 3}})",
       "/parallel/expert_tensor",
       {"whose shapes differ", "training.token_dropping"}},
      {R"({"model": {"moe": {"experts": 8}}, "parallel": {"expert_tensor": "auto", "expert_slices": 2, "zero_stage": 2}})",
       "/parallel/expert_slices",
       {"ZeRO 2 does not gather", "parallel.expert_tensor a number"}},
      {R"({"model": {"moe": {"experts": 8}}, "parallel": {"expert_tensor": "auto", "expert_slices": 1, "zero_stage": 1}})",
       "/parallel/expert_slices",
       {"ZeRO 1 does not gather", "parallel.zero_stage is 3"}},
      {R"({"model": {"moe": {"experts": 8}}, "parallel": {"expert_tensor": "auto", "expert_slices": 2, "zero_stage": 3}})",
       "",
       {}},
      {R"({"parallel": {"expert_slices": 2}})",
       "/parallel/expert_slices",
       {"2 ranks have no experts", "without model.moe", "did you mean \"auto\"?"}},
      {R"({"model": {"moe": {"experts": 8}}, "parallel": {"tensor": 4, "expert_slices": 6, "zero_stage": 3}})",
       "/parallel/expert_slices",
       {"6 is not a multiple of 4", "parallel.expert_tensor", "did you mean 8?"}},
      {R"({"model": {"moe": {"experts": 8}}, "parallel": {"expert_slices": 2, "zero_stage": 2}})",
       "/parallel/expert_slices",
       {"ZeRO 2 does not gather", "parallel.zero_stage is 3", "did you mean 1?"}},
      {R"({"model": {"moe": {"experts": 8}}, "parallel": {"expert": 2, "expert_slices": 4, "zero_stage": 3}})",
       "/parallel/expert",
       {"2 does not divide 8 experts and 1 group of 4 ranks", "÷ expert_slices", "did you mean 1?"},
       4},
      {R"({"model": {"moe": {"experts": 8, "ffn_hidden_size": 48}}, "parallel": {"expert_slices": 3, "zero_stage": 3}})",
       "/parallel/expert_slices",
       {"3 does not divide 4", "parallel.tensor × context × data", "did you mean 2?"},
       4},
      {R"({"model": {"moe": {"experts": 8, "ffn_hidden_size": 30}}, "parallel": {"expert_slices": 4, "zero_stage": 3}})",
       "/parallel/expert_slices",
       {"4 does not divide 30", "model.moe.ffn_hidden_size", "did you mean 3?"}},
  };
}

}  // namespace llmtrain::test
