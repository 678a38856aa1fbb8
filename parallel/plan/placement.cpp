// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/placement.h"

#include <algorithm>
#include <numeric>
#include <optional>
#include <string>

#include "core/base/error.h"

namespace llmtrain {

namespace {

struct Request {
  std::int64_t layers = 0;
  std::int64_t ranks = 1;
  std::int64_t loops = 1;
  BalanceKind kind = BalanceKind::layers;

  std::int64_t stages() const { return ranks * loops; }
  // The embedding and the head count in "blocks" only.
  std::int64_t extra() const { return kind == BalanceKind::blocks ? 2 : 0; }
  std::int64_t units() const { return layers + extra(); }
  std::string describe_stages() const {
    return "the " + std::to_string(stages()) + " stages (pipeline " + std::to_string(ranks) + " × loops " +
           std::to_string(loops) + ")";
  }
};

[[noreturn]] void fail(const std::string& message) {
  throw Error(ExitCode::bad_recipe, "/pipeline/balance: " + message);
}

// The number of loops nearest to the recipe's that splits the units evenly, the lower one of two; none when the ranks
// alone do not divide them.
std::optional<std::int64_t> nearest_loops(const Request& request) {
  const auto is_legal = [&](std::int64_t loops) {
    return loops >= 1 && request.units() % (request.ranks * loops) == 0;
  };
  for (std::int64_t distance = 1; distance <= std::max(request.loops, request.units()); ++distance) {
    if (is_legal(request.loops - distance)) return request.loops - distance;
    if (is_legal(request.loops + distance)) return request.loops + distance;
  }
  return std::nullopt;
}

// Multiples of the stages, less the embedding and the head where they count.
std::int64_t nearest_layers(const Request& request) {
  const std::int64_t stages = request.stages();
  std::int64_t below = request.units() / stages * stages;
  while (below - request.extra() < 1) below += stages;
  const std::int64_t above = request.units() / stages * stages + stages;
  const bool below_is_nearer = request.units() - below <= above - request.units();
  return (below_is_nearer ? below : above) - request.extra();
}

std::string to_json(const std::vector<std::int64_t>& numbers) {
  std::string text;
  for (const std::int64_t number : numbers) text += (text.empty() ? "[" : ", ") + std::to_string(number);
  return text + "]";
}

std::vector<std::int64_t> uneven_split(std::int64_t layers, std::int64_t stages) {
  std::vector<std::int64_t> split(static_cast<std::size_t>(stages), layers / stages);
  for (std::int64_t stage = 0; stage < layers % stages; ++stage) ++split[static_cast<std::size_t>(stage)];
  return split;
}

[[noreturn]] void fail_uneven(const Request& request) {
  const bool blocks = request.kind == BalanceKind::blocks;
  std::string message = std::string(blocks ? "\"blocks\"" : "\"layers\"") + " cannot split " +
                        std::to_string(request.layers) + (request.layers == 1 ? " layer" : " layers") +
                        (blocks ? " with embedding and head" : "") + " evenly over " + request.describe_stages() +
                        "; set ";
  if (const auto loops = nearest_loops(request)) message += "/pipeline/loops to " + std::to_string(*loops) + " or ";
  message += "/model/layers to " + std::to_string(nearest_layers(request));
  if (request.stages() <= request.layers)
    message += ", or give the layers of each stage: " + to_json(uneven_split(request.layers, request.stages()));
  fail(message);
}

// More stages than blocks can never hold something each; said first, so that the arithmetic below stays small.
void check_number_of_stages(const Request& request) {
  const std::int64_t blocks = request.layers + 2;
  if (request.ranks <= blocks && request.loops <= blocks && request.stages() <= blocks) return;
  std::string message = "pipeline " + std::to_string(request.ranks) + " × loops " + std::to_string(request.loops) +
                        " makes more stages than the model has blocks (" + std::to_string(blocks) +
                        ": embedding, layers, head); lower ";
  if (request.ranks > blocks) fail(message + "/parallel/pipeline to at most " + std::to_string(blocks));
  fail(message + "/pipeline/loops to at most " + std::to_string(blocks / request.ranks));
}

void check_list(const Request& request, const std::vector<std::int64_t>& list) {
  const auto stages = static_cast<std::size_t>(request.stages());
  if (list.size() != stages) {
    fail("the list has " + std::to_string(list.size()) + " entries; give one for each of " + request.describe_stages());
  }
  for (std::size_t stage = 0; stage < stages; ++stage) {
    const bool has_embedding_or_head = stage == 0 || stage + 1 == stages;
    if (list[stage] >= (has_embedding_or_head ? 0 : 1)) continue;
    fail("stage " + std::to_string(stage) + " has " + std::to_string(list[stage]) +
         " layers; at least 1, or 0 for the first and the last stage, which hold the embedding and the head");
  }
  // One by one, so that huge entries cannot overflow the sum.
  std::int64_t left = request.layers;
  for (const std::int64_t layers : list) left = layers > left ? -1 : left - layers;
  if (left != 0) {
    fail("the list " + to_json(list) + " does not add up to the " + std::to_string(request.layers) +
         " layers of /model/layers");
  }
}

// Layers of each stage.
std::vector<std::int64_t> split_layers(const Request& request, const std::vector<std::int64_t>& list) {
  if (request.kind == BalanceKind::list) {
    check_list(request, list);
    return list;
  }
  if (request.units() % request.stages() != 0) fail_uneven(request);
  std::vector<std::int64_t> split(static_cast<std::size_t>(request.stages()), request.units() / request.stages());
  if (request.kind == BalanceKind::blocks) {
    --split.front();
    --split.back();
  }
  return split;
}

}  // namespace

std::vector<std::int64_t> layers_per_stage(std::int64_t layers, const PipelineRecipe& pipeline,
                                           std::int64_t pipeline_ranks) {
  const Request request{
      .layers = layers, .ranks = pipeline_ranks, .loops = pipeline.loops, .kind = pipeline.balance.kind};
  check_number_of_stages(request);
  return split_layers(request, pipeline.balance.layers_per_stage);
}

std::vector<Stage> place_blocks(const Graph& graph, const PipelineRecipe& pipeline, std::int64_t pipeline_ranks) {
  const auto layers = static_cast<std::int64_t>(graph.blocks.size()) - 2;
  std::vector<std::int64_t> blocks_per_stage = layers_per_stage(layers, pipeline, pipeline_ranks);
  ++blocks_per_stage.front();
  ++blocks_per_stage.back();
  std::vector<Stage> stages;
  std::size_t next = 0;
  for (const std::int64_t count : blocks_per_stage) {
    Stage& stage = stages.emplace_back();
    stage.blocks.resize(static_cast<std::size_t>(count));
    std::iota(stage.blocks.begin(), stage.blocks.end(), next);
    next += stage.blocks.size();
  }
  return stages;
}

std::int64_t layer_count(const Graph& graph, const Stage& stage) {
  return std::ranges::count_if(stage.blocks,
                               [&](std::size_t block) { return graph.blocks[block].kind == BlockKind::layer; });
}

}  // namespace llmtrain
