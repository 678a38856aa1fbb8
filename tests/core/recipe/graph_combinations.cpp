// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "tests/core/recipe/bad_combinations.h"

namespace llmtrain::test {

std::vector<Combination> graph_combinations() {
  const std::string graphs = R"("kernels": {"cuda_graphs": true})";
  const auto refused = [&](const std::string& with, std::vector<std::string> texts) {
    texts.emplace_back("did you mean false?");
    return Combination{"{" + graphs + ", " + with + "}", "/kernels/cuda_graphs", std::move(texts)};
  };
  return {
      refused(R"("cluster": {"device": "cpu"})", {"a processor has none", "cluster.device"}),
      refused(R"("model": {"dropout": 0.1})", {"other masks", "model.dropout 0"}),
      refused(R"("model": {"lora": {"dropout": 0.1}})", {"other masks", "model.lora.dropout 0"}),
      refused(R"("data": {"document_mask": {"end_of_text": 10}})", {"documents", "document_mask"}),
      refused(R"("model": {"moe": {"experts": 2}})", {"experts", "without model.moe"}),
      refused(R"("parallel": {"tensor": 2})", {"tensor ranks (2) exchange", "parallel.tensor 1"}),
      refused(R"("parallel": {"context": 2})", {"context ranks (2) exchange", "parallel.context 1"}),
      refused(R"("parallel": {"zero_stage": 2})", {"ZeRO-2", "parallel.zero_stage 0 or 1"}),
      refused(R"("memory": {"offload": {"activations": true}})", {"offloaded", "memory.offload"}),
      refused(R"("precision": {"fp8_level": "O0", "fp8_scaling": {"method": "delayed"}})",
              {"delayed scales", "current"}),
      refused(R"("precision": {"fp8_level": "O1"})", {"FP8 gradients", "O0"}),
      {"{" + graphs + "}", "", {}},
      {"{" + graphs + R"(, "precision": {"fp8_level": "O0"}, "parallel": {"zero_stage": 1}})", "", {}},
  };
}

}  // namespace llmtrain::test
