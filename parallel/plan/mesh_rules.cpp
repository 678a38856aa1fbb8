// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <numeric>
#include <string>

#include "core/base/error.h"
#include "core/recipe/hints.h"
#include "core/recipe/pipeline_schedules.h"
#include "parallel/plan/mesh.h"
#include "parallel/plan/placement.h"

namespace llmtrain {

namespace {

constexpr std::int64_t most_ranks = 1 << 24;

std::string times(std::int64_t count, const std::string& what) { return std::to_string(count) + " " + what; }

class Reasons {
 public:
  void add(const std::string& line) { lines_ += (lines_.empty() ? "" : "\n") + line; }
  void refuse(const std::string& pointer, const std::string& what, const std::string& rule, std::int64_t nearest) {
    add(pointer + ": " + what + "; " + rule + "; did you mean " + std::to_string(nearest) + "?");
  }
  // `rule` follows "must divide ".
  void divisor(const std::string& pointer, std::int64_t value, std::int64_t whole, const std::string& rule) {
    if (whole % value == 0) return;
    refuse(pointer, std::to_string(value) + " does not divide " + std::to_string(whole), "must divide " + rule,
           nearest_divisor(value, whole));
  }
  // `rule` follows "must be a multiple of ".
  void multiple(const std::string& pointer, std::int64_t value, std::int64_t divisor, const std::string& rule) {
    if (value % divisor == 0) return;
    refuse(pointer, std::to_string(value) + " is not a multiple of " + std::to_string(divisor),
           "must be a multiple of " + rule, nearest_multiple(value, divisor));
  }
  void throw_if_any() const {
    if (!lines_.empty()) throw Error(ExitCode::bad_recipe, lines_);
  }

 private:
  std::string lines_;
};

// Nothing else is worth telling when the product of the degrees is beyond all sense, and none of it can overflow later.
void check_size(const Recipe& recipe, std::int64_t devices_per_node) {
  const auto& parallel = recipe.parallel;
  const double degrees = static_cast<double>(parallel.tensor) * static_cast<double>(parallel.context) *
                         static_cast<double>(parallel.pipeline) * static_cast<double>(parallel.data.value_or(1));
  const double devices = static_cast<double>(recipe.cluster.nodes) * static_cast<double>(devices_per_node);
  const auto limit = static_cast<double>(most_ranks);
  const char* pointer = degrees > limit ? "/parallel" : devices > limit ? "/cluster/nodes" : nullptr;
  if (pointer == nullptr && recipe.launch.ranks.value_or(1) > most_ranks) pointer = "/launch/ranks";
  if (pointer != nullptr) {
    throw Error(ExitCode::bad_recipe, std::string(pointer) + ": makes more than 2^24 ranks; lower it to at most " +
                                          std::to_string(most_ranks) + " ranks in all");
  }
}

// The number of ranks, of which all but `data` are `others`.
std::int64_t find_world(const Recipe& recipe, std::int64_t others, std::int64_t devices_per_node, Reasons& reasons) {
  const std::string rule = "parallel.tensor × pipeline × context";
  const auto& data = recipe.parallel.data;
  if (recipe.launch.ranks) {
    const std::int64_t ranks = *recipe.launch.ranks;
    if (!data) {
      reasons.multiple("/launch/ranks", ranks, others, rule);
    } else if (ranks != others * *data) {
      reasons.refuse("/launch/ranks", times(ranks, "disagrees with parallel"), "must be " + rule + " × data",
                     others * *data);
    }
    return data ? others * *data : ranks;
  }
  if (data) return others * *data;
  const std::int64_t nodes = recipe.cluster.nodes, devices = nodes * devices_per_node;
  if (devices % others != 0) {
    reasons.refuse(
        "/cluster/nodes",
        times(nodes, "× ") + times(devices_per_node, "devices is not a multiple of ") + std::to_string(others),
        "nodes × devices_per_node must be a multiple of " + rule,
        nearest_multiple(nodes, others / std::gcd(others, devices_per_node)));
  }
  return devices;
}

void check_nodes(const Recipe& recipe, const Mesh& mesh, std::int64_t world, Reasons& reasons) {
  const std::int64_t devices = mesh.devices_per_node;
  if (world > devices && world % devices != 0) {
    return reasons.refuse("/cluster/devices_per_node",
                          times(world, "ranks do not fill nodes of ") + times(devices, "devices"),
                          "must divide the ranks", nearest_divisor(devices, world));
  }
  const std::int64_t needed = std::max<std::int64_t>(1, world / devices);
  if (recipe.cluster.nodes != 1 && recipe.cluster.nodes != needed) {
    reasons.refuse("/cluster/nodes",
                   times(recipe.cluster.nodes, "× ") + times(devices, "devices are not the ") + times(world, "ranks"),
                   "must be the ranks ÷ devices_per_node", needed);
  }
}

void check_experts(const Recipe& recipe, const Mesh& mesh, Reasons& reasons) {
  const auto& moe = recipe.model.moe;
  if (!moe) {
    if (mesh.expert != 1)
      reasons.refuse("/parallel/expert", times(mesh.expert, "ranks have no experts to split"),
                     "must be 1 without model.moe", 1);
    return;
  }
  if (moe->experts % mesh.expert != 0 || mesh.data % mesh.expert != 0) {
    reasons.refuse(
        "/parallel/expert",
        times(mesh.expert, "does not divide ") + times(moe->experts, "experts and ") + times(mesh.data, "data ranks"),
        "must divide model.moe.experts and parallel.data",
        nearest_divisor(mesh.expert, std::gcd(moe->experts, mesh.data)));
  }
  if (mesh.tensor % mesh.expert_tensor != 0) {
    reasons.divisor("/parallel/expert_tensor", mesh.expert_tensor, mesh.tensor, "parallel.tensor");
  } else {
    reasons.divisor("/parallel/expert_tensor", mesh.expert_tensor, moe->ffn_hidden_size, "model.moe.ffn_hidden_size");
  }
}

void check_matrices(const Recipe& recipe, Reasons& reasons) {
  const auto& model = recipe.model;
  const auto& parallel = recipe.parallel;
  if (model.heads % parallel.tensor != 0) {
    reasons.divisor("/parallel/tensor", parallel.tensor, model.heads, "model.heads");
  } else if (parallel.tensor % model.kv_heads != 0 && model.kv_heads % parallel.tensor != 0) {
    reasons.divisor("/parallel/tensor", parallel.tensor, model.kv_heads, "model.kv_heads, or be a multiple of it");
  } else {
    reasons.divisor("/parallel/tensor", parallel.tensor, model.ffn_hidden_size, "model.ffn_hidden_size");
  }
  const bool splits_by_tensor = parallel.sequence && parallel.tensor > 1;
  reasons.multiple(
      "/batch/sequence_length", recipe.batch.sequence_length,
      parallel.context * (splits_by_tensor ? parallel.tensor : 1),
      splits_by_tensor ? "parallel.context × parallel.tensor, as parallel.sequence splits it" : "parallel.context");
}

void check_batch(const Recipe& recipe, const Mesh& mesh, Reasons& reasons) {
  const auto& batch = recipe.batch;
  const std::int64_t step = batch.micro * mesh.data;
  const std::int64_t group = micro_batch_group(recipe.pipeline.schedule, mesh.pipeline, recipe.pipeline.loops);
  if (group == 1) return reasons.multiple("/batch/global", batch.global, step, "batch.micro × parallel.data");
  reasons.multiple("/batch/global", batch.global, step * group,
                   "batch.micro × parallel.data × parallel.pipeline, as interleaved needs micro-batches in multiples "
                   "of the pipeline ranks");
}

void check_stages(const Recipe& recipe, Reasons& reasons) {
  const auto& pipeline = recipe.pipeline;
  if (!takes_loops(pipeline.schedule, recipe.parallel.pipeline, pipeline.loops)) {
    reasons.refuse("/pipeline/loops", times(pipeline.loops, "does not go with this schedule"),
                   "gpipe and 1f1b run one stage a rank; breadth_first and interleaved run more", 1);
  }
  try {
    layers_per_stage(recipe.model.layers, pipeline, recipe.parallel.pipeline);
  } catch (const Error& error) {
    reasons.add(error.what());
  }
}

}  // namespace

Mesh make_mesh(const Recipe& recipe, std::int64_t devices_per_node) {
  check_size(recipe, devices_per_node);
  const auto& parallel = recipe.parallel;
  Mesh mesh{.tensor = parallel.tensor,
            .context = parallel.context,
            .pipeline = parallel.pipeline,
            .expert = parallel.expert,
            .expert_tensor = parallel.expert_tensor,
            .devices_per_node = devices_per_node};
  Reasons reasons;
  const std::int64_t others = mesh.tensor * mesh.context * mesh.pipeline;
  const std::int64_t world = find_world(recipe, others, devices_per_node, reasons);
  mesh.data = std::max<std::int64_t>(1, world / others);
  mesh.zero_shard = parallel.zero_shard_ranks.value_or(mesh.data);
  check_nodes(recipe, mesh, world, reasons);
  check_matrices(recipe, reasons);
  check_experts(recipe, mesh, reasons);
  reasons.divisor("/parallel/zero_shard_ranks", mesh.zero_shard, mesh.data, "parallel.data");
  check_batch(recipe, mesh, reasons);
  check_stages(recipe, reasons);
  reasons.throw_if_any();
  return mesh;
}

}  // namespace llmtrain
