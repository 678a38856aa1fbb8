// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <memory>
#include <mutex>
#include <string>

#include "core/graph/graph.h"
#include "core/huggingface/weight_source.h"

namespace llmtrain {

// The weights of the same model with fewer tokens, and rows for those that it lacks, each the mean of the rows that
// there are, in the type of these. transformers' resize_token_embeddings() does the same: it draws new rows about that
// mean with 1e-9 of their covariance (Hewitt, "Initializing New Word Embeddings for Pretrained Language Models", 2021:
// a row at the mean changes no other token's logit by more than a new token's probability). Whoever reads a part of a
// new row gets the same bits.
class ResizedWeights final : public WeightSource {
 public:
  // `weights` are those of `graph`'s model with `tokens` tokens, at most as many as it has.
  ResizedWeights(std::unique_ptr<const WeightSource> weights, const Graph& graph, std::int64_t tokens);

  bool holds(const Parameter& parameter) const override { return weights_->holds(parameter); }
  at::ScalarType type(const Parameter& parameter) const override { return weights_->type(parameter); }
  // The first new row that is read of a parameter reads all its others.
  at::Tensor read(const Parameter& parameter, const SliceBox& box) const override;

 private:
  at::Tensor mean_of(const Parameter& parameter, std::int64_t rows) const;

  std::unique_ptr<const WeightSource> weights_;
  std::map<std::string, std::int64_t> rows_;  // that there are, of parameters that get more
  mutable std::mutex mutex_;
  mutable std::map<std::string, at::Tensor> means_;  // by parameter, in fp64
};

// The weights that a folder of transformers has for the graph's model, which may have more tokens than the folder's.
// Throws what HuggingfaceWeights does, and require_trained_rows() (core/graph/grown_vocabulary.h).
std::unique_ptr<const WeightSource> open_huggingface(const std::filesystem::path& folder, const Graph& graph);

}  // namespace llmtrain
