// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <iterator>

#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {
namespace {

// A model of images with further keys of its model, and others. Null takes what the small recipe says of tokens.
std::string vit(const std::string& model, const std::string& others = "") {
  return R"({"model": {"architecture": "vit", "vocab_size": null, "max_sequence_length": null,
             "image": {"size": 32, "patch": 8}, "classifier": {"classes": ["a", "b"]})" +
         model + "}" + others + "}";
}

std::string with_images(const std::string& images, const std::string& others = "") {
  return vit("", R"(, "data": {"train": [{"path": "photos"}], "images": {"classes": ["a", "b"])" + images + "}" +
                     others + "}");
}

std::vector<Combination> of_models() {
  return {
      {vit(""), "", {}},
      {with_images(""), "", {}},
      {with_images(R"(, "augmentation": {}, "fit": "middle", "shorter_side": 40)"), "", {}},
      {with_images(R"(, "fit": "stretch", "mean": {"red": 0.4}, "deviation": {"blue": 0.2})"), "", {}},
      {vit(R"(, "dropout": 0.1, "activation": "gelu_tanh")",
           R"(, "parallel": {"pipeline": 2, "zero_stage": 3}, "precision": {"compute": "bf16"})"),
       "",
       {}},
      {R"({"model": {"architecture": "vit", "classifier": {"classes": ["a", "b"]}}})",
       "/model/image",
       {"null, and the model reads images", "did you mean {}?"}},
      {R"({"model": {"image": {}}})", "/model/image", {"this model reads tokens", "did you mean null?"}},
      {vit(R"(, "image": {"size": 30, "patch": 8})"), "/model/image/patch", {"8 does not divide 30"}},
      {vit(R"(, "vocab_size": 512)"), "/model/vocab_size", {"must be 1, or left out", "did you mean 1?"}},
      {vit(R"(, "max_sequence_length": 16)"), "/model/max_sequence_length", {"must be 17, or left out"}},
      {vit("", R"(, "batch": {"sequence_length": 9})"), "/batch/sequence_length", {"must be 17, or left out"}},
      {vit(R"(, "tie_embeddings": true)"), "/model/tie_embeddings", {"no table of tokens", "did you mean false?"}},
      {vit(R"(, "classifier": null)"), "/model/classifier", {"null, which leaves no head"}},
      {vit(R"(, "classifier": {"classes": ["a"]})"), "/model/classifier/classes", {"at least two classes"}},
      {vit(R"(, "classifier": {"classes": ["a", "b"], "of": "token"})"), "/model/classifier", {"images have none"}},
      {vit(R"(, "activation": "swiglu")"), "/model/activation", {"did you mean \"gelu\"?"}},
      {vit(R"(, "norm": "rmsnorm")"), "/model/norm", {"\"vit\"", "did you mean \"layernorm\"?"}},
      {vit(R"(, "position": "rope")"), "/model/position", {"did you mean \"learned\"?"}},
      {vit(R"(, "moe": {"experts": 4})"), "/model/moe/experts", {"has experts"}},
      {vit(R"(, "lora": {})"), "/model/lora", {"did you mean null?"}},
      {vit("", R"(, "parallel": {"tensor": 2})"), "/parallel/tensor", {"2 splits layers", "\"vit\""}},
      {vit("", R"(, "parallel": {"context": 2})"), "/parallel/context", {"2 splits sequences"}},
      {vit("", R"(, "precision": {"compute": "bf16", "fp8_level": "O1"})"), "/precision/fp8_level", {"\"off\""}},
      {vit("", R"(, "precision": {"compute": "fp16"})"), "/precision/compute", {"did you mean \"bf16\"?"}},
  };
}

std::vector<Combination> of_data() {
  return {
      {vit("", R"(, "data": {"train": [{"path": "photos"}]})"), "/data/images", {"this model reads images"}},
      {R"({"data": {"images": {"classes": ["a", "b"]}}})", "/data/images", {"this model reads tokens", "null"}},
      {R"({"model": {"architecture": "bert"}, "data": {"images": {"classes": ["a", "b"]}}})",
       "/data/images",
       {"needs model.architecture \"vit\""}},
      {vit(R"(, "classifier": {"classes": ["b", "a"]})", R"(, "data": {"images": {"classes": ["a", "b"]}})"),
       "/model/classifier",
       {"other classes than data.images.classes"}},
      {vit(R"(, "image": {"size": 32, "patch": 8, "channels": 1})", R"(, "data": {"images": {"classes": ["a", "b"]}})"),
       "/model/image/channels",
       {"red, green and blue", "did you mean 3?"}},
      {vit("", R"(, "data": {"images": {"classes": ["a"]}})"), "/data/images/classes", {"one class"}},
      {vit("", R"(, "data": {"images": {"classes": ["a", "b", "a"]}})"), "/data/images/classes", {"has a twice"}},
      {with_images(R"(, "shorter_side": 31)"), "/data/images/shorter_side", {"at least model.image.size (32)"}},
      {with_images(R"(, "shorter_side": 40, "fit": "stretch")"),
       "/data/images/shorter_side",
       {"did you mean \"auto\"?"}},
      {with_images(R"(, "augmentation": {"least_area": 0.5, "most_area": 0.25})"),
       "/data/images/augmentation/most_area",
       {"0.25 is below", "(0.5)"}},
      {with_images(R"(, "augmentation": {"most_ratio": 0.5})"),
       "/data/images/augmentation/most_ratio",
       {"0.5 is below", "(0.75)"}},
      {with_images("", R"(, "tokenizer": {"huggingface": "t.json"})"), "/data/tokenizer", {"makes tokens of texts"}},
      {with_images("", R"(, "on_bad_line": "skip")"), "/data/on_bad_line", {"did you mean \"stop\"?"}},
      {with_images("", R"(, "document_mask": {"end_of_text": 0})"), "/data/images", {"data.document_mask"}},
      {with_images("", R"(, "curriculum": {"vocabulary_rarity": {"steps": 5}})"), "/data/images", {"must be null"}},
      {vit("", R"(, "data": {"train": [{"path": "photos", "text_key": "a"}], "images": {"classes": ["a", "b"]}})"),
       "/data/train",
       {"must be left out with data.images"}},
  };
}

}  // namespace

std::vector<Combination> image_combinations() {
  std::vector<Combination> all = of_models();
  std::ranges::move(of_data(), std::back_inserter(all));
  return all;
}

}  // namespace llmtrain::test
