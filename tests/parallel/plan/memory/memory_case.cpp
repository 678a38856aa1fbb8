// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/plan/memory/memory_case.h"

#include <algorithm>

#include "parallel/plan/memory/memory_model.h"

namespace llmtrain::test {

namespace {

using Event = MemoryEvent;

struct Pass {
  std::int64_t loop = 0;
  bool is_forward = true;
};

// The passes of one pipeline rank in order: warm-up forwards, alternating forwards and backwards, the rest.
std::vector<Pass> passes_of_rank(const Mesh& mesh, std::int64_t loops, std::int64_t micro_batches, std::int64_t rank) {
  const std::int64_t passes = micro_batches * loops, later_ranks = mesh.pipeline - rank - 1;
  const std::int64_t warm_up =
      std::min(passes, loops > 1 ? 2 * later_ranks + (loops - 1) * mesh.pipeline : later_ranks);
  std::vector<Pass> order;
  for (std::int64_t i = 0; i < passes + warm_up; ++i) {
    if (i < passes) order.push_back({i / mesh.pipeline % loops, true});
    if (i >= warm_up) order.push_back({loops - 1 - (i - warm_up) / mesh.pipeline % loops, false});
  }
  return order;
}

double peak_of_rank(const StepMemory& memory, const Mesh& mesh, std::int64_t rank, const std::vector<Pass>& order) {
  const auto stage_of = [&](std::int64_t loop) -> const StageMemory& {
    return memory.stages[static_cast<std::size_t>(loop * mesh.pipeline + rank)];
  };
  double resident = memory.rank.total();
  for (std::size_t stage = static_cast<std::size_t>(rank); stage < memory.stages.size();
       stage += static_cast<std::size_t>(mesh.pipeline))
    resident += memory.stages[stage].resident.total();
  double saved = 0, peak = 0;
  for (const Pass& pass : order) {
    const StageMemory& stage = stage_of(pass.loop);
    const double of_pass = stage.held(Event::forward_starts, Event::backward_ends);
    if (pass.is_forward) saved += of_pass;
    peak = std::max(peak, saved + (pass.is_forward ? stage.held(Event::forward_starts, Event::forward_ends)
                                                   : stage.held(Event::backward_starts, Event::backward_ends)));
    if (!pass.is_forward) saved -= of_pass;
  }
  return resident + peak;
}

}  // namespace

StepMemory MemoryCase::memory() const {
  ClusterProfile profile;
  profile.device.kind = device;
  profile.program.name = "another";
  const Partition divided = partition();
  return make_step_memory({divided, profile});
}

MemoryCase gpt_case(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocabulary,
                    std::int64_t sequence) {
  MemoryCase result;
  ModelRecipe& model = result.recipe.model;
  model.layers = layers;
  model.hidden_size = hidden;
  model.heads = model.kv_heads = heads;
  model.head_dim = hidden / heads;
  model.ffn_hidden_size = 4 * hidden;
  model.vocab_size = vocabulary;
  model.max_sequence_length = sequence;
  result.recipe.batch = {.global = 1, .micro = 1, .sequence_length = sequence};
  result.recipe.precision.compute = DataType::bf16;
  return result;
}

double peak_bytes(const MemoryCase& memory_case) {
  const StepMemory memory = memory_case.memory();
  const Mesh& mesh = memory_case.mesh;
  double peak = 0;
  for (std::int64_t rank = 0; rank < mesh.pipeline; ++rank) {
    const auto order =
        passes_of_rank(mesh, memory_case.recipe.pipeline.loops, mesh.micro_batches(memory_case.recipe.batch), rank);
    peak = std::max(peak, peak_of_rank(memory, mesh, rank, order));
  }
  return peak;
}

}  // namespace llmtrain::test
