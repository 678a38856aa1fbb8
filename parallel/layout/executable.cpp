// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/executable.h"

#include <utility>

namespace llmtrain {
namespace {

class Refusals {
 public:
  void refuse_if(bool wanted, const std::string& pointer, const std::string& value, const std::string& instead) {
    if (wanted) refuse(pointer, value + " can be planned but not run yet; " + instead);
  }
  void refuse(const std::string& pointer, const std::string& reason) { reasons_.push_back(pointer + ": " + reason); }
  void one_only(const std::string& pointer, std::int64_t value) {
    refuse_if(value != 1, pointer, std::to_string(value), "run supports only 1");
  }
  std::vector<std::string> take() { return std::move(reasons_); }

 private:
  std::vector<std::string> reasons_;
};

void refuse_precision(const PrecisionRecipe& precision, Refusals& refusals) {
  refusals.refuse_if(precision.compute == DataType::fp16, "/precision/compute", "fp16", "use \"bf16\" or \"fp32\"");
  refusals.refuse_if(precision.gradients == DataType::fp16, "/precision/gradients", "fp16", "use \"bf16\" or \"fp32\"");
  refusals.refuse_if(precision.fp8_level != Fp8Level::off, "/precision/fp8_level", "an FP8 level", "use \"off\"");
}

void refuse_parallel(const ParallelRecipe& parallel, Refusals& refusals) {
  refusals.one_only("/parallel/expert", parallel.expert);
  // Its default is parallel.tensor, and without experts it splits nothing.
  refusals.refuse_if(parallel.expert_tensor != parallel.tensor, "/parallel/expert_tensor",
                     std::to_string(parallel.expert_tensor), "leave it out");
}

void refuse_emulation(const LaunchRecipe& launch, Refusals& refusals) {
  if (launch.backend == CommunicationBackend::local) return;
  for (const auto& [key, value] : {std::pair{"link_delay_microseconds", launch.link_delay_microseconds},
                                   std::pair{"link_megabytes_per_second", launch.link_megabytes_per_second},
                                   std::pair{"layer_delay_microseconds", launch.layer_delay_microseconds}}) {
    if (value == 0) continue;
    refusals.refuse("/launch/" + std::string(key),
                    "only the local backend emulates a machine; set launch.backend to \"local\", or this to 0");
  }
}

void refuse_memory(const MemoryRecipe& memory, Refusals& refusals) {
  refusals.refuse_if(memory.offload.optimizer, "/memory/offload/optimizer", "true", "use false");
  refusals.refuse_if(memory.offload.weights, "/memory/offload/weights", "true", "use false");
  refusals.refuse_if(memory.offload.activations, "/memory/offload/activations", "true", "use false");
}

}  // namespace

// Every key that plans but does not run is listed here; a new feature removes its line.
std::vector<std::string> not_executable(const Recipe& recipe) {
  Refusals refusals;
  refusals.refuse_if(recipe.model.moe.has_value(), "/model/moe", "a mixture of experts", "leave it out");
  refusals.refuse_if(recipe.data.tokenizer.kind != TokenizerKind::bytes, "/data/tokenizer", "a tokenizer file",
                     "use \"bytes\", also with tokenised .bin files");
  refuse_precision(recipe.precision, refusals);
  refuse_parallel(recipe.parallel, refusals);
  refuse_memory(recipe.memory, refusals);
  refuse_emulation(recipe.launch, refusals);
  return refusals.take();
}

}  // namespace llmtrain
