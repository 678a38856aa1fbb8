// SPDX-License-Identifier: Apache-2.0
#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {
namespace {

// A model whose first of every two layers is linear, and further sections.
std::string hybrid(const std::string& keys, const std::string& sections = "", const std::string& sizes = "") {
  return R"({"model": {"layer_kinds": ["linear", "attention"], "linear_attention": {"key_heads": 2, "value_heads": 4,
    "key_head_dim": 16, "value_head_dim": 8)" +
         sizes + "}" + keys + "}" + sections + "}";
}

std::string gated(const std::string& keys) { return R"({"model": {"position": "rope")" + keys + "}}"; }

}  // namespace

std::vector<Combination> hybrid_combinations() {
  const std::string kinds = "/model/layer_kinds", linear = "/model/linear_attention";
  return {
      {hybrid(""), "", {}},
      {hybrid(R"(, "position": "none", "attention_gate": true)", R"(, "parallel": {"tensor": 2})"), "", {}},
      {hybrid("", "", R"(, "kind": "mamba2", "convolution": 2, "convolution_bias": false, "chunk": 128)"), "", {}},
      {R"({"model": {"layer_kinds": ["attention_alone", "feed_forward_alone"]}})", "", {}},
      {R"({"model": {"layer_kinds": ["attention", "atention"]}})",
       kinds,
       {"\"atention\" is no kind", "\"linear_alone\""}},
      {R"({"model": {"layers": 2, "layer_kinds": ["attention", "attention", "attention"]}})",
       kinds,
       {"names 3 layers", "model.layers (2)"}},
      {R"({"model": {"layer_kinds": ["linear"]}})", kinds, {"needs model.linear_attention"}},
      {hybrid(R"(, "layer_kinds": ["attention"])"), linear, {"has no layer", "did you mean null?"}},
      {hybrid("", "", R"(, "value_heads": 3)"),
       linear + "/value_heads",
       {"3 is not a multiple of 2", "did you mean 4?"}},
      {R"({"model": {"layers": 4, "layer_kinds": ["attention", "attention_alone"], "moe": {"experts": 8, "every": 2}}})",
       kinds,
       {"leaves no layer with experts"}},
      {R"({"model": {"layer_kinds": ["attention_alone", "feed_forward_alone"], "parallel_residual": "two_norms"}})",
       "/model/parallel_residual",
       {"one half alone", "did you mean \"none\"?"}},
      {R"({"model": {"attention_gate": true, "position": "rope", "qkv_bias": false, "latent_attention": {
          "key_value_rank": 16, "nope_head_dim": 16, "rope_head_dim": 8, "value_head_dim": 12}}})",
       "/model/attention_gate",
       {"did you mean false?"}},
      {gated(R"(, "rotary_dim": 4)"), "", {}},
      {gated(R"(, "rotary_dim": 3)"), "/model/rotary_dim", {"3 is not a multiple of 2"}},
      {gated(R"(, "rotary_dim": 16)"), "/model/rotary_dim", {"more than a head has", "model.head_dim (8)"}},
      {gated(R"(, "rotary_dim": 8, "qkv_bias": false, "latent_attention": {"key_value_rank": 16, "nope_head_dim": 16,
          "rope_head_dim": 8, "value_head_dim": 12})"),
       "/model/rotary_dim",
       {"a part of each head"}},
      {R"({"model": {"rotary_dim": 4}})", "/model/rotary_dim", {"rotates nothing"}},
      {hybrid("", R"(, "parallel": {"tensor": 4})"), "/parallel/tensor", {"model.linear_attention.key_heads"}},
      {hybrid("", R"(, "parallel": {"context": 2})"), "/parallel/context", {"2 ranks split sequences"}},
  };
}

}  // namespace llmtrain::test
