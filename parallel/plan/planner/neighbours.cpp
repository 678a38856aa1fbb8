// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/planner/neighbours.h"

#include <utility>

#include "core/json/json_text.h"
#include "core/recipe/pipeline_order.h"
#include "core/recipe/recipe_io.h"
#include "parallel/plan/planner/uniform_recompute.h"

namespace llmtrain {
namespace {

class NeighbourList {
 public:
  NeighbourList(const Recipe& recipe, const Mesh& mesh) : recipe_(recipe), mesh_(mesh) {
    change_sharding();
    change_memory();
    change_batch();
    change_pipeline();
    change_degrees();
  }

  std::vector<Recipe> take() { return std::move(neighbours_); }

 private:
  template <typename Edit>
  void add(Edit edit) {
    Recipe other = recipe_;
    edit(other);
    // Keys that already have the value would give the recipe itself.
    if (!(other == recipe_)) neighbours_.push_back(std::move(other));
  }

  // The stages and their order are chosen for the sharding.
  static void set_default_stages(Recipe& other) {
    const PipelineRecipe defaults = with_dependent_defaults(other).pipeline;
    other.pipeline.schedule = defaults.schedule;
    other.pipeline.loops = defaults.loops;
  }

  void change_sharding() {
    // Offloaded weights take ZeRO-3.
    if (mesh_.data * mesh_.context > 1 && !recipe_.memory.offload.weights) {
      for (const std::int64_t stage : {0, 1, 2, 3})
        add([&](Recipe& other) {
          other.parallel.zero_stage = stage;
          const bool has_own_stages = mesh_.pipeline == 1 || stage == 3;
          if (has_own_stages && stage != recipe_.parallel.zero_stage) set_default_stages(other);
        });
    }
    if (mesh_.tensor > 1) add([](Recipe& other) { other.parallel.sequence = true; });
    add([](Recipe& other) { other.parallel.overlap = true; });
  }

  void change_memory() {
    for (const Recompute recompute : recompute_choices(recipe_.parallel))
      add([&](Recipe& other) { recompute_in_all_layers(other.memory, recompute); });
    add([](Recipe& other) { other.kernels.attention = AttentionKernel::flash; });
  }

  void change_batch() {
    // The smallest at once: halving again and again would be as many decisions.
    for (const std::int64_t micro : {std::int64_t{1}, recipe_.batch.micro / 2, recipe_.batch.micro * 2})
      if (micro > 0) add([&](Recipe& other) { other.batch.micro = micro; });
  }

  void change_pipeline() {
    // Before interleaved with one loop, which is the same by another name.
    if (mesh_.pipeline > 1) change_schedule(PipelineSchedule::one_forward_one_backward, 1);
    // One stage per layer, and the granularities next to the recipe's.
    const std::int64_t loops = recipe_.pipeline.loops, finest = layer_count(recipe_.model) / mesh_.pipeline;
    for (const std::int64_t other : {loops, loops * 2, loops / 2, finest}) {
      if (other < 1) continue;
      change_schedule(PipelineSchedule::breadth_first, other);
      change_schedule(PipelineSchedule::interleaved, other);
    }
    if (mesh_.pipeline > 1 && recipe_.pipeline.balance.kind != BalanceKind::list)
      for (const BalanceKind balance : {BalanceKind::layers, BalanceKind::blocks})
        add([&](Recipe& other) { other.pipeline.balance.kind = balance; });
  }

  void change_schedule(PipelineSchedule schedule, std::int64_t loops) {
    // Without a pipeline stages are only what ZeRO-3 gathers.
    const bool matters = mesh_.pipeline > 1 || recipe_.parallel.zero_stage == 3 || loops == recipe_.pipeline.loops;
    if (!matters) return;
    add([&](Recipe& other) {
      other.pipeline.schedule = schedule;
      other.pipeline.loops = loops;
    });
  }

  // Ranks that one degree gains are taken from data parallelism, or go there, so that the world size stays the same.
  void change_degrees() {
    if (mesh_.data % 2 == 0) {
      set_tensor(mesh_.tensor * 2, mesh_.data / 2);
      set_pipeline(mesh_.pipeline * 2, mesh_.data / 2);
      set_context(mesh_.context * 2, mesh_.data / 2);
    }
    if (mesh_.tensor % 2 == 0) set_tensor(mesh_.tensor / 2, mesh_.data * 2);
    if (mesh_.pipeline % 2 == 0) set_pipeline(mesh_.pipeline / 2, mesh_.data * 2);
    if (mesh_.context % 2 == 0) set_context(mesh_.context / 2, mesh_.data * 2);
    if (!recipe_.model.moe) return;
    const std::int64_t expert = mesh_.expert, split = mesh_.expert_tensor;
    set_experts(expert * 2, split);
    set_experts(expert, split * 2);
    if (expert % 2 == 0) set_experts(expert / 2, split);
    if (split % 2 == 0) set_experts(expert, split / 2);
    // Ranks that split experts hold different ones instead, all of them or half, and the other way round.
    if (split > 2) set_experts(expert * split, 1);
    if (split % 2 == 0) set_experts(expert * 2, split / 2);
    if (expert % 2 == 0) set_experts(expert / 2, split * 2);
  }

  void set_experts(std::int64_t expert, std::int64_t split) {
    add([&](Recipe& other) {
      other.parallel.expert = expert;
      other.parallel.expert_tensor = split;
    });
  }

  void set_tensor(std::int64_t tensor, std::int64_t data) {
    const bool splits_experts = recipe_.parallel.expert_tensor == recipe_.parallel.tensor;
    add([&](Recipe& other) {
      other.parallel.tensor = tensor;
      other.parallel.data = data;
      other.parallel.sequence = tensor > 1 && (other.parallel.sequence || mesh_.tensor == 1);
      if (splits_experts) other.parallel.expert_tensor = tensor;
    });
  }

  void set_pipeline(std::int64_t pipeline, std::int64_t data) {
    add([&](Recipe& other) {
      other.parallel.pipeline = pipeline;
      other.parallel.data = data;
      if (mesh_.pipeline > 1 && pipeline > 1) return;
      // A list is for the stages that there were.
      other.pipeline.balance = {};
      set_default_stages(other);
      if (pipeline > 1 && other.parallel.zero_stage < 3)
        other.pipeline.schedule = PipelineSchedule::one_forward_one_backward;
    });
  }

  void set_context(std::int64_t context, std::int64_t data) {
    add([&](Recipe& other) {
      other.parallel.context = context;
      other.parallel.data = data;
    });
  }

  const Recipe& recipe_;
  const Mesh& mesh_;
  std::vector<Recipe> neighbours_;
};

// What --set takes: words of a choice without the quotes that a shell would remove.
std::string set_word(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

// A part of two recipes, as each is and with its defaults.
struct Part {
  Json is, default_is;
};

// Appends what makes the keys of `after`, within `path`, of those of `before`.
void add_changes(const Part& before, const Part& after, const std::string& path, std::string& words) {
  for (const auto& item : after.is.items()) {
    const std::string& key = item.key();
    if (item.value().is_object() && before.is[key].is_object()) {
      add_changes({before.is[key], before.default_is[key]}, {item.value(), after.default_is[key]}, path + key + ".",
                  words);
      continue;
    }
    // A file that does not state the key follows its default, which may be another now.
    const bool may_follow = before.is[key] == before.default_is[key];
    if (before.is[key] == item.value() && (!may_follow || after.default_is[key] == item.value())) continue;
    words += (words.empty() ? "" : " --set ") + path + key + "=" + set_word(item.value());
  }
}

}  // namespace

std::vector<Recipe> neighbours(const Recipe& recipe, const Mesh& mesh) { return NeighbourList(recipe, mesh).take(); }

std::string change_words(const Recipe& recipe, const Recipe& other) {
  const Json before = to_json(recipe), before_default = to_json(with_dependent_defaults(recipe));
  Json after = to_json(other);
  const Json after_default = to_json(with_dependent_defaults(other));
  // It follows `tensor`, and no file states it for a model without experts.
  if (!other.model.moe) after["parallel"].erase("expert_tensor");
  std::string words;
  for (const std::string section : {"batch", "parallel", "pipeline", "memory", "kernels"})
    add_changes({before[section], before_default[section]}, {after[section], after_default[section]}, section + ".",
                words);
  return words;
}

}  // namespace llmtrain
