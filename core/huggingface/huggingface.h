// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/graph/graph.h"
#include "core/huggingface/stored_tensors.h"
#include "core/huggingface/weight_source.h"

namespace llmtrain {

// Whether an encoder's folder has to have the head that predicts tokens, which embeddings do not read.
enum class TokenHead { needed, may_lack };

// The weights of a folder with config.json and model.safetensors (or the sharded index) that transformers'
// save_pretrained wrote: gpt2, llama, and those members of the Llama family that recipe keys can express (qwen2:
// query-key-value biases; qwen3: query-key norms; mistral without a sliding window), also with experts (mixtral,
// qwen3_moe, qwen2_moe). Dropout and initialization in config.json are ignored. Files may be links, as in the hub's
// cache; an index may not name files outside the folder. Of a head for other classes than the model's, or for tokens,
// it holds nothing (begins_anew()), and neither of one that is not there. Files stay mapped; what was read does not
// count as this process's memory.
class HuggingfaceWeights final : public WeightSource {
 public:
  // Checks everything but values, and reads none, except the head of a tied model that has one. Throws
  // Error(missing_input); Error(bad_data) that names every tensor which is missing, unexpected or of another shape;
  // Error(bad_recipe) that names every key of `model` that disagrees with config.json.
  HuggingfaceWeights(const std::filesystem::path& folder, const Graph& graph, TokenHead head = TokenHead::needed);

  bool holds(const Parameter& parameter) const override;
  at::ScalarType type(const Parameter& parameter) const override;
  // Throws Error(bad_data) that names a tensor with values that are not finite.
  at::Tensor read(const Parameter& parameter, const SliceBox& box) const override;

 private:
  // Where a parameter is, or one expert of it.
  struct Place {
    StoredTensor tensor;
    bool transposed = false;
    std::int64_t first_row = 0;         // after transposition
    std::vector<std::int64_t> shape{};  // of its parameter, where the tensor has other axes
  };
  void read_part(const Place& place, const SliceBox& box, const at::Tensor& into) const;

  std::map<std::string, std::vector<Place>> places_;  // by parameter; of experts one each
};

struct HuggingfaceFormat {
  at::ScalarType dtype = at::kFloat;              // of all weights: fp32, bf16 or fp16
  std::int64_t shard_bytes = default_file_bytes;  // of a file's tensors, at most, unless it holds one larger tensor
  // A folder of transformers from which the model comes: its special tokens' ids and its generation_config.json are
  // taken over. Empty: none.
  std::filesystem::path origin{};
  // Ids of which each ends a text; those that `origin` does not name are added to the ones that end generation.
  std::vector<std::int64_t> ends{};
  // The tokenizer's id that fills sequences up, for a model without an `origin`.
  std::optional<std::int64_t> padding{};
  // The id behind which an encoder-decoder writes a target, for one without an `origin`; none: padding.
  std::optional<std::int64_t> decoder_start{};
  // How pixels are made, of a model of images; none: as in `origin`.
  std::optional<ImagesRecipe> images{};
};

// Writes a folder, new or empty, that transformers' from_pretrained loads with no missing and no unexpected key:
// model.safetensors, or several files with model.safetensors.index.json; config.json is written last, and where
// anything fails nothing stays. Memory grows neither with the model nor with a file. Throws Error(bad_recipe) that
// names the keys of `model` that no transformers architecture supports (gpt-rope has no counterpart), Error(bad_data)
// for a tensor with values beyond the type's range, Error(cannot_write), and what `weights` throws.
void save_huggingface(const std::filesystem::path& folder, const Graph& graph, const WeightSource& weights,
                      const HuggingfaceFormat& format = {});

}  // namespace llmtrain
