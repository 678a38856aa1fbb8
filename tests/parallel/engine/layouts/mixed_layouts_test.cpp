// SPDX-License-Identifier: Apache-2.0
// Tensor, pipeline and data ranks together learn what one rank learns, and resume from each other's checkpoints.
#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/parallel/engine/save_ranks.h"
#include "tests/parallel/engine/train_ranks.h"

namespace llmtrain::test {
namespace {

struct MixedCase {
  int tensor;
  int pipeline;
  int data;
  Overrides overrides;

  int ranks() const { return tensor * pipeline * data; }
  Overrides all() const {
    return Overrides{"parallel.tensor=" + std::to_string(tensor), "parallel.pipeline=" + std::to_string(pipeline),
                     "batch.micro=1"} +
           overrides;
  }
  RankCase as_rank_case() const { return {ranks(), all()}; }
};

// The default of several tensor ranks; without it stages exchange whole rows, of which each tensor rank sends a part.
const std::string sequence = "parallel.sequence=true", whole_rows = "parallel.sequence=false";
const std::string breadth_first = "pipeline.schedule=\"breadth_first\"";

std::vector<MixedCase> layouts() {
  return {
      {2, 2, 1, {whole_rows, "pipeline.schedule=\"1f1b\""}},
      {2, 2, 1, {sequence, breadth_first, "pipeline.loops=2"}},
      {2, 2, 2, {zero(3), whole_rows, breadth_first, "pipeline.loops=2"}},
      {2, 2, 2, {zero(3), sequence, breadth_first, "pipeline.loops=2", "memory.recompute=\"full\""}},
      {2, 2, 2, {zero(2), sequence, "pipeline.schedule=\"interleaved\"", "pipeline.loops=2"}},
      {2, 2, 2, {zero(1), whole_rows, "pipeline.schedule=\"gpipe\"", "memory.recompute=\"selective\""}},
      {4, 2, 1, {sequence, "pipeline.balance=[1,3]", "pipeline.schedule=\"1f1b\""}},
      {2, 4, 1, {whole_rows, "pipeline.schedule=\"1f1b\""}},
  };
}

std::vector<Overrides> models() {
  const std::string layers = "model.layers=4";
  return {
      {layers, "model.vocab_size=259"},
      {layers, "model.architecture=\"gpt2\"", "model.dropout=0.1", "model.vocab_size=257"},
      {layers, "model.sliding_window={\"tokens\":5,\"global_every\":2,\"rope_theta\":100}",
       "model.attention_sinks=true", "model.attention_scale=0.3", "model.post_norms=true", "model.embedding_scale=3"}};
}

}  // namespace

TEST_CASE("tensor, pipeline and data ranks together learn what one rank learns", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model = GENERATE(from_range(models()));
  const Run expected = setting.train(model, 12);
  for (const MixedCase& layout : layouts()) {
    INFO(in_words(layout.ranks(), layout.all()));
    check_close(train_ranks(setting, layout.ranks(), model + layout.all(), 12), expected, 1e-5, 1e-4);
  }
}

TEST_CASE("a mix of all is bitwise reproducible", "[ranks]") {
  const TrainingSetting setting;
  const MixedCase layout{2, 2, 2, {zero(3), sequence, breadth_first, "pipeline.loops=2"}};
  const Overrides all = Overrides{"model.layers=4", "model.tie_embeddings=true"} + layout.all();
  check_equal(train_ranks(setting, 8, all, 6), train_ranks(setting, 8, all, 6));
}

TEST_CASE("a mix evaluates what one rank evaluates", "[ranks]") {
  const MixedCase layout = GENERATE(MixedCase{2, 2, 1, {whole_rows}}, MixedCase{2, 2, 2, {zero(3), sequence}});
  check_evaluation(TrainingSetting(), {"model.layers=4", "model.tie_embeddings=true"}, layout.as_rank_case());
}

TEST_CASE("any mix resumes from any mix's checkpoint", "[ranks]") {
  // One head of keys and values on two ranks, and a vocabulary that they do not divide.
  const Overrides model = GENERATE(Overrides{"model.layers=4", "model.kv_heads=1", "model.vocab_size=257"},
                                   Overrides{"model.layers=4", "model.architecture=\"gpt2\"", "model.vocab_size=259"});
  const Overrides compute = GENERATE(Overrides{}, Overrides{"precision.compute=\"bf16\""});
  const MixedCase saved{2, 2, 2, {zero(2), sequence, breadth_first, "pipeline.loops=2"}};
  const MixedCase sharded{4, 1, 2, {zero(3)}}, deep{2, 4, 1, {"pipeline.schedule=\"1f1b\""}};
  check_resumption(TrainingSetting(), model + compute, saved.as_rank_case(),
                   {MixedCase{1, 1, 1, {}}.as_rank_case(), sharded.as_rank_case(), deep.as_rank_case()},
                   compute.empty() ? 1e-5 : 2e-2);
}

}  // namespace llmtrain::test
