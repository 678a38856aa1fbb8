// SPDX-License-Identifier: Apache-2.0
#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {
namespace {

// An encoder with further keys of its model, and others.
std::string encoder(const std::string& model, const std::string& others = "") {
  return R"({"model": {"architecture": "bert")" + model + "}" + others + "}";
}

}  // namespace

std::vector<Combination> encoder_combinations() {
  return {
      {encoder(""), "", {}},
      {R"({"model": {"architecture": "roberta", "activation": "gelu_tanh", "tie_embeddings": false, "dropout": 0.1}})",
       "",
       {}},
      {encoder("", R"(, "training": {"optimizer": {"name": "muon"}}, "memory": {"recompute": "full"})"), "", {}},
      {encoder("", R"(, "parallel": {"pipeline": 2, "zero_stage": 3}, "precision": {"compute": "bf16"})"), "", {}},
      {encoder(R"(, "kv_heads": 2)"), "/model/kv_heads", {"2 groups heads", "did you mean 8?"}},
      {encoder(R"(, "head_dim": 4)"), "/model/head_dim", {"4 is another size", "model.hidden_size / model.heads"}},
      {encoder(R"(, "activation": "swiglu")"), "/model/activation", {"another function", "did you mean \"gelu\"?"}},
      {encoder(R"(, "activation": "squared_relu")"), "/model/activation", {"must be \"gelu\" or \"gelu_tanh\""}},
      {encoder(R"(, "attention_sinks": true, "post_norms": true)"),
       "/model/architecture",
       {"must be a decoder's with /model/attention_sinks and /model/post_norms"}},
      {R"({"model": {"architecture": "bert", "sliding_window": {"tokens": 8}, "attention_scale": 2}})",
       "/model/architecture",
       {"must be a decoder's with /model/sliding_window and /model/attention_scale"}},
      {encoder("", R"(, "data": {"train": [{"path": "a.txt"}]})"), "/data/masking", {"null", "did you mean {}?"}},
      {encoder("", R"(, "data": {"train": [{"path": "a.txt"}], "masking": {"token": 0}})"), "", {}},
      {encoder(R"(, "dropout": 0.1)",
               R"(, "data": {"train": [{"path": "a.txt"}], "masking": {"token": 0, "single_texts": true}})"),
       "/model/dropout",
       {}},
      {encoder(R"(, "norm": "rmsnorm")"), "/model/norm", {"did you mean \"layernorm\"?"}},
      {encoder(R"(, "position": "rope")"), "/model/position", {"did you mean \"learned\"?"}},
      {encoder(R"(, "bias": false)"), "/model/bias", {"did you mean true?"}},
      {encoder(R"(, "qkv_bias": false)"), "/model/qkv_bias", {"did you mean true?"}},
      {encoder(R"(, "qk_norm": true)"), "/model/qk_norm", {"did you mean false?"}},
      {encoder(R"(, "moe": {"experts": 4})"), "/model/moe/experts", {"has experts"}},
      {encoder(R"(, "lora": {})"), "/model/lora", {"did you mean null?"}},
      {encoder("", R"(, "training": {"freeze": ["layers.0.*"]})"), "/training/freeze", {"did you mean []?"}},
      {encoder("", R"(, "training": {"token_dropping": {"start": 64, "steps": 5}})"),
       "/training/token_dropping",
       {"did you mean null?"}},
      {encoder("", R"(, "parallel": {"tensor": 2})"), "/parallel/tensor", {"2 splits layers", "did you mean 1?"}},
      {encoder("", R"(, "parallel": {"context": 2})"), "/parallel/context", {"2 splits sequences"}},
      {encoder("", R"(, "precision": {"compute": "fp16"})"), "/precision/compute", {"did you mean \"bf16\"?"}},
      {encoder("", R"(, "precision": {"compute": "bf16", "fp8_level": "O1"})"),
       "/precision/fp8_level",
       {"did you mean \"off\"?"}},
      {encoder("", R"(, "kernels": {"cuda_graphs": true}, "cluster": {"device": "cuda"})"),
       "/kernels/cuda_graphs",
       {"did you mean false?"}},
      {encoder("", R"(, "kernels": {"attention": "cudnn"}, "cluster": {"device": "cuda"},
                      "precision": {"compute": "bf16"})"),
       "/kernels/attention",
       {"\"cudnn\"", "did you mean \"auto\"?"}},
      {encoder("", R"(, "data": {"fine_tuning": {}})"), "/data/fine_tuning", {"did you mean null?"}},
  };
}

}  // namespace llmtrain::test
