// SPDX-License-Identifier: Apache-2.0
// A step whose optimizer states are on a disk reads and writes the planned bytes, and needs the planned memory.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/parallel/engine/planned/planned_expert_layouts.h"
#include "tests/parallel/engine/planned/planned_run.h"

namespace llmtrain::test {

TEST_CASE("a step with states on a disk does what is planned") {
  const TrainingSetting setting;
  const std::string bf16 = "precision.compute=\"bf16\"", large = "model.vocab_size=9000";
  const Overrides in_backward{"training.update_in_backward=true", "training.clip_norm=0", "pipeline.loops=2"};
  const Overrides on_disk{"memory.offload.optimizer=\"disk\"",
                          "memory.offload.folder=\"" + setting.directory().path().string() + "\""};
  for (const RankCase& layout :
       std::vector<RankCase>{{1, {}},
                             // Several pieces.
                             {1, {bf16, large}},
                             {2, {bf16, large, "parallel.zero_stage=1"}},
                             {2, {"parallel.zero_stage=2"}},
                             {3, {"parallel.zero_stage=3", "pipeline.loops=4", "batch.global=12"}},
                             {2, {bf16, "parallel.pipeline=2", "model.tie_embeddings=true"}},
                             {2, {bf16, "parallel.tensor=2", "training.freeze=[\"layers.0.*\"]"}},
                             {4, {even, "parallel.expert=2", "parallel.zero_stage=1"}},
                             // Two pieces of the layers' matrices.
                             {1, {bf16, "precision.fp8_level=\"O1\"", "model.ffn_hidden_size=704"}},
                             {2, {bf16, "precision.fp8_level=\"O2\"", "parallel.zero_stage=1"}},
                             {2, {bf16, "precision.fp8_level=\"O3\"", "model.ffn_hidden_size=704"}},
                             // Stage by stage, the last one first.
                             {1, in_backward + Overrides{bf16, large}},
                             {2, in_backward + Overrides{"parallel.zero_stage=3"}},
                             {4, in_backward + Overrides{"parallel.pipeline=2", "model.tie_embeddings=true"}}})
    check_layout(setting, {layout.ranks, layout.overrides + on_disk});
}

}  // namespace llmtrain::test
