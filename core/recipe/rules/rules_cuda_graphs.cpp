// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <vector>

#include "core/recipe/hints.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

// A graph launches the same kernels with the same sizes, numbers and addresses in every step.
Verdict check_same_work(const Recipe& recipe) {
  if (recipe.model.dropout > 0) return refuse_true("dropout draws other masks in every step", "model.dropout 0");
  if (recipe.model.lora && recipe.model.lora->dropout > 0)
    return refuse_true("dropout of adapters draws other masks in every step", "model.lora.dropout 0");
  if (recipe.data.document_mask || recipe.data.fine_tuning)
    return refuse_true("the documents of every step are others", "data without document_mask and fine_tuning");
  if (recipe.data.labels || recipe.data.spans || recipe.data.pairs || recipe.data.denoising)
    return refuse_true("the lengths of texts are others in every step", "data without labels, spans and pairs");
  if (recipe.data.masking) return refuse_true("the rows that count are others in every step", "data without masking");
  if (recipe.data.curriculum.sequence_length)
    return refuse_true("sequences grow from step to step", "data.curriculum.sequence_length null");
  if (recipe.batch.growth) return refuse_true("steps have more micro-batches as the batch grows", "batch.growth null");
  if (recipe.training.token_dropping)
    return refuse_true("layers keep other tokens in every step", "training.token_dropping null");
  return {};
}

// Nor does the host take part in it.
Verdict check_host(const Recipe& recipe) {
  const auto ranks = [](const char* key, std::int64_t degree) {
    return refuse_true(std::string("the ") + key + " ranks (" + std::to_string(degree) +
                           ") exchange tensors within a pass, which the host starts",
                       std::string("parallel.") + key + " 1");
  };
  if (recipe.model.moe)
    return refuse_true("the host takes part in the exchange and statistics of experts", "a model without model.moe");
  if (recipe.parallel.tensor > 1) return ranks("tensor", recipe.parallel.tensor);
  if (recipe.parallel.context > 1) return ranks("context", recipe.parallel.context);
  if (recipe.memory.offload != OffloadRecipe{})
    return refuse_true("what is offloaded passes through the host", "memory.offload without true and \"disk\"");
  if (recipe.precision.delays_scales())
    return refuse_true("the host has the history of delayed scales",
                       "precision.fp8_scaling.method \"current\", or fp8_level \"off\"");
  if (recipe.log.fp8_statistics) return refuse_true("statistics are read by the host", "log.fp8_statistics false");
  return {};
}

Verdict check_memory(const Recipe& recipe) {
  if (recipe.parallel.zero_stage >= 2)
    return refuse_true("ZeRO-" + std::to_string(recipe.parallel.zero_stage) +
                           " has gradients or weights in other memory in every step",
                       "parallel.zero_stage 0 or 1");
  if (stores_fp8(recipe.precision.fp8_level))
    return refuse_true("FP8 gradients are summed in other memory in every step",
                       "precision.fp8_level \"off\" or \"O0\"");
  return {};
}

Verdict check_cuda_graphs(const Recipe& recipe, const Known&) {
  if (!recipe.kernels.cuda_graphs) return {};
  if (recipe.cluster.device == DeviceKind::cpu)
    return refuse_true("a processor has none", "cluster.device \"cuda\" or \"auto\"");
  for (const auto check : {check_same_work, check_host, check_memory})
    if (auto refusal = check(recipe)) return refusal;
  return {};
}

}  // namespace

std::vector<Rule> cuda_graph_rules() {
  return {{"/kernels/cuda_graphs",
           {"/cluster/device",
            "/model/dropout",
            "/model/lora/dropout",
            "/model/moe/experts",
            "/data/document_mask",
            "/data/fine_tuning",
            "/data/masking",
            "/data/labels",
            "/data/spans",
            "/data/pairs",
            "/data/curriculum/sequence_length",
            "/batch/growth",
            "/training/token_dropping",
            "/parallel/tensor",
            "/parallel/context",
            "/parallel/zero_stage",
            "/memory/offload/optimizer",
            "/memory/offload/gradients",
            "/memory/offload/weights",
            "/memory/offload/activations",
            "/memory/offload/resident_stages",
            "/memory/offload/folder",
            "/precision/fp8_level",
            "/precision/fp8_scaling/method",
            "/log/fp8_statistics"},
           check_cuda_graphs}};
}

}  // namespace llmtrain
