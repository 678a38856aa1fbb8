// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <filesystem>
#include <map>
#include <string>

#include "core/graph/graph.h"
#include "core/huggingface/weight_source.h"

namespace llmtrain {

// The weights of a Graph's model without adapters, from the weights of the model with them: each adapted matrix is V =
// W
// + scale · B·A, and with DoRA m · V ÷ ‖V‖ row by row, in fp32.
class MergedWeights final : public WeightSource {
 public:
  // Both outlive this object.
  MergedWeights(const Graph& graph, const WeightSource& weights);

  bool holds(const Parameter& parameter) const override;
  at::ScalarType type(const Parameter& parameter) const override;
  at::Tensor read(const Parameter& parameter, const SliceBox& box) const override;

 private:
  struct Adapter {
    const Parameter* a = nullptr;
    const Parameter* b = nullptr;
    const Parameter* magnitude = nullptr;  // none without DoRA
    double scale = 0;
  };
  const WeightSource& weights_;
  std::map<std::string, Adapter> adapters_;  // by the name of their matrix
};

// Writes the adapters of the Graph's model, in the types of their weights, as a folder that
// peft.PeftModel.from_pretrained() loads over the model that save_huggingface() writes without them:
// adapter_config.json and adapter_model.safetensors. `base` is what the configuration names as that model, or empty.
// Of what transformers keeps as one matrix, GPT-2's query, key and value, the adapters become one of a higher rank
// (core/huggingface/joined_adapters.h). Throws Error(bad_recipe) for a model without adapters and for one that no
// transformers architecture supports, and Error(cannot_write). Modules that are trained beside adapters are written
// with them.
void save_peft(const std::filesystem::path& folder, const Graph& graph, const WeightSource& weights,
               const std::string& base);

// Loads such a folder, as PEFT wrote it or save_peft() did: the weights of the adapters of the Graph's model, and of
// the modules that are trained beside them. fp16 becomes fp32. Throws Error(missing_input); Error(bad_data) for a kind
// of adapter that model.lora has no keys for, and for tensors that are missing, unexpected, of another shape or not
// finite; Error(bad_recipe) where rank or alpha disagree. Magnitudes are whole, as PEFT has them: above_base() makes of
// them what the model trains.
NamedWeights load_peft(const std::filesystem::path& folder, const Graph& graph);

// Takes the lengths of the rows of the matrices in `base` from the magnitudes among the weights.
NamedWeights above_base(NamedWeights weights, const Graph& graph, const WeightSource& base);

}  // namespace llmtrain
