// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/recipe/keys/key_table.h"
#include "core/recipe/pipeline_schedules.h"

namespace llmtrain {
namespace {

constexpr IntegerRange degree_range{1, 1 << 20};

constexpr std::array<std::string_view, 3> data_type_words = {"fp32", "bf16", "fp16"};
constexpr std::array<std::string_view, 4> fp8_level_words = {"off", "O1", "O2", "O3"};
constexpr std::array<std::string_view, 3> recompute_words = {"none", "selective", "full"};
constexpr std::array<std::string_view, 3> attention_words = {"auto", "flash", "math"};

void describe_precision(KeyVisitor& keys, PrecisionRecipe& precision) {
  keys.choice({"compute", "Type of weights and activations in forward and backward; master weights stay fp32."},
              precision.compute, data_type_words);
  keys.choice({"gradients", "Type in which gradients are accumulated and reduced."}, precision.gradients,
              data_type_words);
  keys.choice({"fp8_level",
               "What is FP8: off nothing, O1 matrix products, weight gradients and their traffic, O2 "
               "also AdamW's first moment, O3 also weights."},
              precision.fp8_level, fp8_level_words);
}

void describe_parallel(KeyVisitor& keys, ParallelRecipe& parallel) {
  keys.integer({"tensor", "Ranks that split every layer's matrices."}, parallel.tensor, degree_range);
  keys.boolean({"sequence", "Splits norms and dropout along the sequence over the tensor ranks.", "tensor > 1"},
               keys.otherwise(parallel.sequence, parallel.tensor > 1));
  keys.integer({"pipeline", "Ranks that split the layers."}, parallel.pipeline, degree_range);
  keys.integer({"context", "Ranks that split a sequence in attention."}, parallel.context, degree_range);
  keys.integer({"expert", "Ranks, within data, that split the experts."}, parallel.expert, degree_range);
  keys.integer({"expert_tensor", "Ranks that split one expert's matrices.", "tensor"},
               keys.otherwise(parallel.expert_tensor, parallel.tensor), degree_range);
  keys.automatic_integer({"data", "Replicas that share the global batch; auto: world ÷ the others."}, parallel.data,
                         degree_range);
  keys.integer({"zero_stage",
                "ZeRO: what the replicas shard instead of each keeping a copy. 0 nothing, 1 optimizer "
                "state, 2 also gradients, 3 also weights."},
               parallel.zero_stage, {0, 3});
  keys.automatic_integer({"zero_shard_ranks",
                          "Ranks that ZeRO shards over, replicating across the groups; auto: all "
                          "data ranks."},
                         parallel.zero_shard_ranks, degree_range);
  keys.boolean({"overlap", "Data-parallel traffic runs beside the computation."}, parallel.overlap);
}

void describe_pipeline(KeyVisitor& keys, PipelineRecipe& pipeline) {
  keys.choice({"schedule", "Order of the micro-batches over the stages."}, pipeline.schedule, pipeline_schedule_words);
  keys.integer({"loops", "Stages of one pipeline rank; with one pipeline rank, units that weights are gathered in."},
               pipeline.loops, {1, 10'000});
  keys.balance({"balance",
                "How layers fall on the pipeline × loops stages: \"layers\" evenly, \"blocks\" with "
                "embedding and head as a layer each, or the layers of each stage."},
               pipeline.balance, {0, 10'000});
}

void describe_memory(KeyVisitor& keys, MemoryRecipe& memory) {
  keys.choice({"recompute",
               "What the backward computes again instead of keeping it: nothing, attention's inside, or "
               "whole layers."},
              memory.recompute, recompute_words);
  keys.section({"offload", "What is kept in the host's memory instead of the device's."}, [&] {
    keys.boolean({"optimizer", "Optimizer state and master weights."}, memory.offload.optimizer);
    keys.boolean({"weights", "Weights of layers that are not in use."}, memory.offload.weights);
    keys.boolean({"activations", "Activations between forward and backward."}, memory.offload.activations);
  });
}

}  // namespace

void describe_layout(KeyVisitor& keys, Recipe& recipe) {
  keys.section({"precision", "Number types."}, [&] { describe_precision(keys, recipe.precision); });
  keys.section({"parallel", "How ranks share the work."}, [&] { describe_parallel(keys, recipe.parallel); });
  keys.section({"pipeline", "How layers and micro-batches go through the stages."},
               [&] { describe_pipeline(keys, recipe.pipeline); });
  keys.section({"memory", "What is traded for memory."}, [&] { describe_memory(keys, recipe.memory); });
  keys.section({"kernels", "Which implementations compute."}, [&] {
    keys.choice({"attention", "Attention: flash never stores the scores, math does and allows dropout."},
                recipe.kernels.attention, attention_words);
  });
}

}  // namespace llmtrain
