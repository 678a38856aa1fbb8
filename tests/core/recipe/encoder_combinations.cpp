// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {
namespace {

// An encoder with further keys of its model, and others.
std::string encoder(const std::string& model, const std::string& others = "") {
  return R"({"model": {"architecture": "bert")" + model + "}" + others + "}";
}

std::string pair_model(const std::string& architecture, const std::string& model, const std::string& others = "") {
  return R"({"model": {"architecture": ")" + architecture + "\"" + model + "}" + others + "}";
}

// A T5 that restores damaged texts, with further keys of data.denoising and of data.
std::string denoising_model(const std::string& denoising, const std::string& data = "") {
  return pair_model(
      "t5", "", R"(, "data": {"tokenizer": {"huggingface": "t.json"}, "denoising": {)" + denoising + "}" + data + "}");
}

std::vector<Combination> encoder_alone() {
  return {
      {encoder(""), "", {}},
      {R"({"model": {"architecture": "roberta", "activation": "gelu_tanh", "tie_embeddings": false, "dropout": 0.1}})",
       "",
       {}},
      {encoder("", R"(, "training": {"optimizer": {"name": "muon"}}, "memory": {"recompute": "full"})"), "", {}},
      {encoder("", R"(, "parallel": {"pipeline": 2, "zero_stage": 3}, "precision": {"compute": "bf16"})"), "", {}},
      {encoder("", R"(, "memory": {"chunks": 4})"), "", {}},
      {R"({"memory": {"chunks": 4}})", "/memory/chunks", {"4", "must be 1 for decoders"}},
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
      {encoder(R"(, "attention_output_bias": false)"), "/model/attention_output_bias", {"did you mean true?"}},
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
      {encoder("", R"(, "training": {"label_smoothing": 0.1})"), "", {}},
      {R"({"training": {"label_smoothing": 0.1}})", "/training/label_smoothing", {"did you mean 0?"}},
      {encoder(R"(, "decoder_layers": 2)"), "/model/decoder_layers", {"2 is a decoder's beside an encoder"}},
      {R"({"model": {"position": "relative"}})", "/model/position", {"needs model.architecture \"t5\""}},
  };
}

std::vector<Combination> encoder_beside_decoder() {
  return {
      {pair_model("bart", R"(, "activation": "relu")", R"(, "training": {"label_smoothing": 0.1})"), "", {}},
      {pair_model("t5", R"(, "activation": "geglu_tanh", "tie_embeddings": false, "head_dim": 5, "decoder_layers": 3)"),
       "",
       {}},
      {pair_model("t5", "", R"(, "parallel": {"pipeline": 2, "zero_stage": 3}, "precision": {"compute": "bf16"})"),
       "",
       {}},
      {pair_model("bart", R"(, "decoder_layers": 0)"), "/model/decoder_layers", {"0 leaves no decoder"}},
      {pair_model("bart", R"(, "tie_embeddings": false)"), "/model/tie_embeddings", {"did you mean true?"}},
      {pair_model("bart", R"(, "head_dim": 5)"), "/model/head_dim", {"an encoder-decoder's"}},
      {pair_model("bart", R"(, "norm": "rmsnorm")"), "/model/norm", {"did you mean \"layernorm\"?"}},
      {pair_model("bart", R"(, "position": "rope")"), "/model/position", {"did you mean \"learned\"?"}},
      {pair_model("t5", R"(, "position": "learned")"), "/model/position", {"did you mean \"relative\"?"}},
      {pair_model("t5", R"(, "norm": "layernorm")"), "/model/norm", {"did you mean \"rmsnorm\"?"}},
      {pair_model("t5", R"(, "bias": true)"), "/model/bias", {"did you mean false?"}},
      {pair_model("t5", R"(, "qkv_bias": true)"), "/model/qkv_bias", {"did you mean false?"}},
      {pair_model("t5", R"(, "activation": "squared_relu")"), "/model/activation", {"did you mean \"relu\"?"}},
      {pair_model("t5", R"(, "embedding_scale": 2)"), "/model/architecture", {"is \"t5\""}},
      {pair_model("t5", R"(, "lora": {})"), "/model/lora", {"did you mean null?"}},
      {pair_model("t5", "", R"(, "parallel": {"tensor": 2})"), "/parallel/tensor", {"did you mean 1?"}},
      {pair_model("t5", "", R"(, "data": {"train": [{"path": "a.jsonl"}]})"),
       "/data/pairs",
       {"null", "did you mean {}?"}},
      {pair_model("t5", "", R"(, "data": {"tokenizer": {"huggingface": "t.json"}, "pairs": {"target_length": 999}})"),
       "/data/pairs/target_length",
       {"999 is too long", "did you mean 128?"}},
      {pair_model("t5", "", R"(, "training": {"generation": {}})"), "/training/generation", {"needs data.pairs"}},
      {R"({"training": {"generation": {}}})", "/training/generation", {"needs an encoder-decoder"}},
      {denoising_model("\"token\": 3"), "/data/denoising/token", {"3 is a mask", "must be \"auto\""}},
      {denoising_model("\"noise\": \"infilling\", \"token\": 99999"),
       "/data/denoising/token",
       {"99999 is no id", "must be below model.vocab_size"}},
      {denoising_model("\"decoder_start\": 99999"), "/data/denoising/decoder_start", {"99999 is no id"}},
      {denoising_model("\"permute_sentences\": true"), "/data/denoising/permute_sentences", {"did you mean false?"}},
      {denoising_model("\"single_texts\": true", R"(, "train": [{"path": "a.bin"}])"),
       "/data/denoising/single_texts",
       {"a.bin is a token file"}},
      {denoising_model("", R"(, "pairs": {})"), "/data/denoising", {"data.pairs"}},
      {R"({"data": {"tokenizer": {"huggingface": "t.json"}, "denoising": {}}})",
       "/data/denoising",
       {"needs an encoder-decoder"}},
      {pair_model("t5", "", R"(, "pipeline": {"balance": [4, 3]}, "parallel": {"pipeline": 2})"),
       "/pipeline/balance",
       {"the list [4, 3] holds 7 layers", "must add up to model.layers and model.decoder_layers (8)"}},
  };
}

}  // namespace

std::vector<Combination> encoder_combinations() {
  std::vector<Combination> all = encoder_alone();
  std::ranges::move(encoder_beside_decoder(), std::back_inserter(all));
  return all;
}

}  // namespace llmtrain::test
