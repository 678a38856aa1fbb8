// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace llmtrain::test {

// A merge patch (RFC 7396) of the small recipe: 4 layers, hidden 64, 8 heads, vocabulary 512, length 128, batch 8 of 2,
// 100 steps.
struct Combination {
  std::string patch;
  std::string pointer;  // of the one error; empty if the recipe stays valid
  std::vector<std::string> words;
  std::int64_t devices_per_node =
      0;  // of the world that it is planned for; 0: the recipe is only read, without a world
};

std::vector<Combination> model_combinations();
std::vector<Combination> document_combinations();
std::vector<Combination> masking_combinations();
std::vector<Combination> label_combinations();
std::vector<Combination> span_combinations();
std::vector<Combination> pair_combinations();
std::vector<Combination> curriculum_combinations();
std::vector<Combination> attention_combinations();
std::vector<Combination> latent_attention_combinations();
std::vector<Combination> hybrid_combinations();
std::vector<Combination> encoder_combinations();
std::vector<Combination> image_combinations();
std::vector<Combination> resnet_combinations();
std::vector<Combination> window_combinations();
std::vector<Combination> residual_combinations();
std::vector<Combination> prediction_combinations();
std::vector<Combination> router_combinations();
std::vector<Combination> graph_combinations();
std::vector<Combination> optimizer_combinations();
std::vector<Combination> training_combinations();
std::vector<Combination> update_combinations();
std::vector<Combination> precision_combinations();
std::vector<Combination> batch_combinations();
std::vector<Combination> course_combinations();  // schedules, evaluations, checkpoints
std::vector<Combination> world_combinations();
std::vector<Combination> node_combinations();
std::vector<Combination> layout_combinations();
std::vector<Combination> expert_combinations();
std::vector<Combination> slice_combinations();
std::vector<Combination> offload_combinations();
std::vector<Combination> policy_combinations();
std::vector<Combination> pipeline_combinations();
std::vector<Combination> size_combinations();
std::vector<Combination> slurm_combinations();
std::vector<Combination> slurm_start_combinations();

}  // namespace llmtrain::test
