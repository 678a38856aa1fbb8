// SPDX-License-Identifier: Apache-2.0
#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {
namespace {

// A residual network with further keys of its model, and others. Null takes what the small recipe says of layers.
std::string resnet(const std::string& model, const std::string& others = "") {
  return R"({"model": {"architecture": "resnet", "vocab_size": null, "max_sequence_length": null, "layers": null,
             "hidden_size": null, "heads": null, "image": {"size": 32}, "classifier": {"classes": ["a", "b"]},
             "resnet": {"groups": 8, "stages": [{"blocks": 2, "channels": 64}, {"blocks": 1, "channels": 128}]})" +
         model + "}" + others + "}";
}

// The recipe above with other stages.
std::string with_section(const std::string& section) {
  return resnet(R"(, "resnet": {)" + section + R"(, "stages": [{"blocks": 2, "channels": 64}, {"blocks": 1,
                "channels": 72}]})");
}

std::vector<Combination> of_sections() {
  return {
      {resnet(""), "", {}},
      {with_section(R"("groups": 8)"), "", {}},
      {with_section(R"("groups": 2, "block": "bottleneck")"), "", {}},
      {resnet("",
              R"(, "data": {"train": [{"path": "photos"}], "images": {"classes": ["a", "b"], "augmentation": {}}})"),
       "",
       {}},
      {resnet("", R"(, "parallel": {"pipeline": 3, "zero_stage": 3}, "precision": {"compute": "bf16"})"), "", {}},
      {resnet(R"(, "resnet": null, "layers": 2, "hidden_size": 8, "heads": 1)"),
       "/model/resnet",
       {"null, which leaves no blocks", "\"stages\""}},
      {resnet(R"(, "resnet": {"stages": []}, "layers": 1, "hidden_size": 1)"),
       "/model/resnet/stages",
       {"[] leaves no blocks"}},
      {R"({"model": {"resnet": {"stages": [{"blocks": 1, "channels": 64}]}, "layers": 1}})",
       "/model/resnet",
       {"needs model.architecture \"resnet\"", "did you mean null?"}},
      {resnet(R"(, "image": null, "vocab_size": 1, "max_sequence_length": 1)"),
       "/model/image",
       {"null, and the model reads images", "\"resnet\""}},
      {with_section(R"("groups": 16)"), "/model/resnet/groups", {"16 groups", "72 channels", "stages[1]"}},
      {with_section(R"("groups": 8, "block": "bottleneck")"), "/model/resnet/groups", {"72 / 4 channels", "a quarter"}},
      {with_section(R"("groups": 8, "stem_channels": 20)"),
       "/model/resnet/stem_channels",
       {"20 channels are not 8 equal groups"}},
  };
}

std::vector<Combination> of_other_keys() {
  return {
      {resnet(R"(, "layers": 4)"), "/model/layers", {"must be 3, or left out", "did you mean 3?"}},
      {resnet(R"(, "hidden_size": 64)"), "/model/hidden_size", {"must be 128, or left out"}},
      {resnet(R"(, "heads": 2)"), "/model/heads", {"must be 1, or left out", "no heads"}},
      {resnet(R"(, "ffn_hidden_size": 512)"), "/model/ffn_hidden_size", {"must be 128, or left out"}},
      {resnet(R"(, "image": {"size": 32, "patch": 8})"), "/model/image/patch", {"must be 32, or left out"}},
      {resnet(R"(, "max_sequence_length": 17)"), "/model/max_sequence_length", {"must be 1, or left out", "one row"}},
      {resnet(R"(, "dropout": 0.1)"), "/model/dropout", {"residual blocks drop nothing", "did you mean 0?"}},
      {resnet(R"(, "activation": "gelu")"), "/model/activation", {"\"resnet\"", "did you mean \"relu\"?"}},
      {resnet(R"(, "norm": "layernorm")"), "/model/norm", {"did you mean \"groupnorm\"?"}},
      {R"({"model": {"norm": "groupnorm"}})", "/model/norm", {"channels of images", "did you mean \"layernorm\"?"}},
      {resnet(R"(, "position": "learned")"), "/model/position", {"did you mean \"none\"?"}},
      {resnet(R"(, "bias": false)"), "/model/bias", {"did you mean true?"}},
      {resnet(R"(, "lora": {})"), "/model/lora", {"did you mean null?"}},
      {resnet(R"(, "moe": {"experts": 4})"), "/model/moe/experts", {"has experts"}},
      {resnet("", R"(, "parallel": {"tensor": 2})"), "/parallel/tensor", {"2 splits layers", "\"resnet\""}},
      {resnet("", R"(, "parallel": {"context": 2})"), "/parallel/context", {"2 splits sequences"}},
      {resnet("", R"(, "precision": {"compute": "fp16"})"), "/precision/compute", {"did you mean \"bf16\"?"}},
      {resnet("", R"(, "kernels": {"cuda_graphs": true})"), "/kernels/cuda_graphs", {"did you mean false?"}},
      {resnet("", R"(, "data": {"train": [{"path": "photos"}]})"), "/data/images", {"this model reads images"}},
  };
}

}  // namespace

std::vector<Combination> resnet_combinations() {
  std::vector<Combination> all = of_sections();
  const std::vector<Combination> more = of_other_keys();
  all.insert(all.end(), more.begin(), more.end());
  return all;
}

}  // namespace llmtrain::test
