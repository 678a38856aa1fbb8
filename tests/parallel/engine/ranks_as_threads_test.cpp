// SPDX-License-Identifier: Apache-2.0
// A few concurrent steps of ranks as threads, short enough for ThreadSanitizer (scripts/test --sanitizers).
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

std::vector<RankCase> layouts() {
  const std::string breadth_first = "pipeline.schedule=\"breadth_first\"", loops = "pipeline.loops=2";
  return {
      {2, {zero(3), loops}},
      {2, {"parallel.pipeline=2", "pipeline.schedule=\"1f1b\"", "model.tie_embeddings=true"}},
      {4, {"parallel.pipeline=2", zero(3), breadth_first, loops}},
      {4, {"parallel.pipeline=2", "parallel.tensor=2", "memory.recompute=\"full\""}},
  };
}

TEST_CASE("ranks as threads learn what one rank learns", "[ranks]") {
  const TrainingSetting setting;
  constexpr std::int64_t steps = 3;
  for (const RankCase& layout : layouts()) {
    const Overrides model{"model.layers=4", "batch.micro=1"};
    INFO(in_words(layout.ranks, layout.overrides));
    Overrides alone = model;
    if (layout.overrides.back() == "model.tie_embeddings=true") alone.push_back(layout.overrides.back());
    check_close(train_ranks(setting, layout.ranks, model + layout.overrides, steps), setting.train(alone, steps), 1e-5,
                1e-4);
  }
}

}  // namespace
}  // namespace llmtrain::test
