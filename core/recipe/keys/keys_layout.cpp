// SPDX-License-Identifier: Apache-2.0
#include <array>
#include <cstdint>

#include "core/recipe/enum_words.h"
#include "core/recipe/keys/key_table.h"
#include "core/recipe/pipeline_order.h"
#include "core/recipe/pipeline_schedules.h"

namespace llmtrain {
namespace {

constexpr IntegerRange degree_range{1, 1 << 20};

constexpr std::array<std::string_view, 2> fp8_products_words = {"all", "auto"};
constexpr std::array<std::string_view, 3> product_format_words = {"fp8", "nvfp4", "mxfp4"};
constexpr std::array<std::string_view, 2> fp8_scaling_words = {"current", "delayed"};
constexpr std::array<std::string_view, 4> gradient_scaling_words = {"auto", "inverse_root", "pre", "post"};
constexpr std::array<std::string_view, 4> attention_words = {"auto", "flash", "math", "cudnn"};

void describe_products(KeyVisitor& keys, PrecisionRecipe& precision) {
  keys.choice({"fp8_products",
               "Which products of the layers FP8 levels multiply in FP8: all; auto those that the plan for "
               "cluster.profile says are faster with it, casts included."},
              precision.fp8_products, fp8_products_words);
  keys.choice(
      {"product_format",
       "Numbers of the products that fp8_level O0 names: of 8 bits, or of 4 with a scale for each 16 (nvfp4) or 32 "
       "(mxfp4) elements. Those of 4 bits planned, not run."},
      precision.product_format, product_format_words);
}

void describe_precision(KeyVisitor& keys, PrecisionRecipe& precision) {
  keys.choice({"compute", "Data type of weights and activations in forward and backward; master weights stay fp32."},
              precision.compute, data_type_words);
  keys.choice({"gradients", "Data type in which gradients are accumulated and reduced."}, precision.gradients,
              data_type_words);
  keys.boolean({"tf32",
                "Matrix products of fp32 on a GPU round their operands to 10 bits of mantissa (TF32), which is several "
                "times as fast; sums stay fp32."},
               precision.tf32);
  keys.choice({"fp8_level",
               "What uses FP8: off nothing; O0 the layers' matrix products; O1 also weight gradients and their "
               "communication; O2 also AdamW's first moment; O3 also weights."},
              precision.fp8_level, fp8_level_words);
  describe_products(keys, precision);
  keys.section({"fp8_scaling", "Scales of the operands of FP8 products."}, [&] {
    Fp8ScalingRecipe& scaling = precision.fp8_scaling;
    keys.choice(
        {"method",
         "current: of a tensor's own largest magnitude; delayed: of its largest one in the steps before, so that "
         "ranks need not agree on it in every layer."},
        scaling.method, fp8_scaling_words);
    keys.integer({"history_steps", "With delayed: of how many steps before."}, scaling.history_steps, {1, 65536});
    keys.integer({"margin", "With delayed: scales are smaller by 2 to the power of it, for magnitudes that grow."},
                 scaling.margin, {0, 15});
  });
  keys.choice(
      {"gradient_scaling",
       "Factor of the scales of FP8 gradients, which are summed over the data ranks: auto adapts it to the sums "
       "of each tensor (FP8-LM's μ); inverse_root, pre and post are 1 ÷ √ranks, 1 ÷ ranks and 1."},
      precision.gradient_scaling, gradient_scaling_words);
  keys.boolean({"stochastic_rounding",
                "From O1 on: weights and moments that AdamW stores in small types are rounded up or down at random, so "
                "that updates below half of their last place are kept on average."},
               precision.stochastic_rounding);
  keys.section({"loss_scale", "With fp16: the loss is multiplied by a power of two before the backward."}, [&] {
    keys.number({"initial", "The first one, a power of two. It is halved where gradients overflow."},
                precision.loss_scale.initial, {1, 1 << 24});
    keys.integer({"growth_steps", "It doubles after so many steps in a row without overflow."},
                 precision.loss_scale.growth_steps, {1, most_steps});
  });
  keys.section({"high_precision", "Which layers' matrices FP8 levels leave in the other types."}, [&] {
    HighPrecisionRecipe& kept = precision.high_precision;
    keys.integer({"first_layers", "Number of layers at the start."}, kept.first_layers, {0, layer_range.maximum});
    keys.integer({"last_layers", "Number of layers at the end."}, kept.last_layers, {0, layer_range.maximum});
    keys.texts({"parameters", "Patterns of names of matrices, with * for any text, as in layers.*.ffn.down.weight."},
               kept.parameters, "a list of patterns");
    keys.integer({"fallback_steps",
                  "FP8 is left for good after so many steps in a row: by a layer's products, with delayed scales, in "
                  "which an operand was beyond the range of its scale; by a matrix's gradients, from O1 on, in which "
                  "more than 0.001 % of their sums over the data ranks saturated; 0: never."},
                 kept.fallback_steps, {0, most_steps});
  });
}

void describe_parallel(KeyVisitor& keys, ParallelRecipe& parallel) {
  keys.integer({"tensor", "Tensor parallelism: ranks that split each layer's matrices."}, parallel.tensor,
               degree_range);
  keys.boolean({"sequence", "Sequence parallelism: splits norms and dropout along the sequence over the tensor ranks.",
                "tensor > 1"},
               keys.otherwise(parallel.sequence, parallel.tensor > 1));
  keys.integer({"pipeline", "Pipeline parallelism: ranks that split the layers."}, parallel.pipeline, degree_range);
  keys.integer({"context", "Context parallelism: ranks that split each sequence."}, parallel.context, degree_range);
  keys.integer({"expert",
                "Expert parallelism: ranks that hold different experts, of all tensor × context × data ranks; times "
                "expert_tensor it divides their number."},
               parallel.expert, degree_range);
  keys.automatic_integer({"expert_tensor",
                          "Ranks that split each expert's matrices: neighbours, whether tensor, context or data ranks; "
                          "auto: the divisor of "
                          "expert_slices that was fastest in the run's first steps.",
                          "tensor"},
                         keys.otherwise(parallel.expert_tensor, parallel.tensor), degree_range);
  keys.automatic_integer(
      {"expert_slices",
       "Ranks over which ZeRO 3 cuts the states of each expert's matrices: a multiple of expert_tensor, whose ranks "
       "gather the slices that they compute with; auto: expert_tensor."},
      parallel.expert_slices, degree_range);
  keys.automatic_integer(
      {"expert_overlap",
       "Parts into which each micro-batch's rows of the experts are cut, so that the exchange of some runs while "
       "the experts compute others; 1: no overlap; auto: 1, 2, 4 or 8, as measured in the run's first steps."},
      parallel.expert_overlap, {1, 64});
  keys.choice({"expert_all_to_all",
               "How expert ranks exchange rows: linear by a message to every other rank; hierarchical first among the "
               "ranks of a node and then between nodes, in fewer and larger messages; auto: the faster one."},
              parallel.expert_all_to_all, all_to_all_words);
  keys.automatic_integer(
      {"data", "Data parallelism: replicas that share the global batch; auto: world size ÷ the other degrees."},
      parallel.data, degree_range);
  keys.integer({"zero_stage",
                "ZeRO stage: what data ranks shard instead of replicating; 0 nothing, 1 optimizer state, 2 also "
                "gradients, 3 also weights."},
               parallel.zero_stage, {0, 3});
  keys.automatic_integer(
      {"zero_shard_ranks", "Ranks that ZeRO shards over, with replication across groups; auto: all data ranks."},
      parallel.zero_shard_ranks, degree_range);
  keys.boolean({"overlap", "Overlaps data-parallel communication with computation."}, parallel.overlap);
}

// Without a pipeline loops are the units that ZeRO-3 gathers and that an update in the backward updates: by default one
// per layer, as FSDP wraps a model, so that no rank ever holds more than two layers' weights, or gradients. With one,
// set_default_order() decides.
std::int64_t default_loops(const Recipe& recipe) {
  const bool has_units = recipe.parallel.zero_stage == 3 || recipe.training.update_in_backward;
  return recipe.parallel.pipeline > 1 || !has_units ? 1 : finest_stages(recipe);
}

// One rank has no bubble to fill, so it need not keep the activations of more than one micro-batch.
PipelineSchedule default_schedule(const Recipe& recipe) {
  return recipe.parallel.pipeline > 1 || reduces_once(recipe) ? PipelineSchedule::breadth_first
                                                              : PipelineSchedule::interleaved;
}

void describe_pipeline(KeyVisitor& keys, Recipe& recipe) {
  PipelineRecipe& pipeline = recipe.pipeline;
  keys.choice(
      {"schedule",
       "Pipeline schedule: the order of micro-batches on the stages. On one pipeline rank interleaved and 1f1b "
       "finish one micro-batch, forward and backward, before the next.",
       "breadth_first; interleaved with one pipeline rank, and with ZeRO-3 on several where loops are left out, too "
       "(1f1b where micro-batches are no multiple of them); FP8 gradients with ZeRO-2 or -3 keep breadth_first"},
      keys.otherwise(pipeline.schedule, default_schedule(recipe)), pipeline_schedule_words);
  keys.balance(
      {"balance",
       "How layers are distributed over the pipeline × loops stages: \"layers\" evenly, \"blocks\" evenly "
       "with embedding and head counted as one layer each, or a list of layers per stage. Where they do not divide, "
       "stages differ by one layer at most, and those with embedding or head have fewer."},
      pipeline.balance, {0, 10'000});
  keys.integer(
      {"loops",
       "Stages per pipeline rank; with ZeRO-3 the units in which weights are gathered, with "
       "training.update_in_backward those that are updated at once.",
       "1; with ZeRO-3 a unit per layer, on several pipeline ranks where schedule is left out, too, and is not 1f1b; "
       "with training.update_in_backward on one pipeline rank likewise"},
      keys.otherwise(pipeline.loops, default_loops(recipe)), {1, 10'000});
}

void describe_memory(KeyVisitor& keys, MemoryRecipe& memory) {
  keys.recompute({"recompute",
                  "What the backward recomputes instead of storing: nothing; norms, activation functions and the "
                  "scores of math attention (selective); whole layers, but for what other ranks sent (computation); or "
                  "all of them (full). A word is for all layers; an object lists layers by word, counted from 0 over "
                  "the whole model, as in {\"full\": [\"0-7\", 12]}: the others keep everything."},
                 memory, recompute_words, {0, layer_range.maximum - 1});
  keys.nullable_number({"limit",
                        "Most memory of a device that the plan may need: a share of what its profile states, up to 1, "
                        "or bytes. The planner then chooses what each layer recomputes and, where that is not enough, "
                        "what a GPU leaves to the host, at the least time, and then memory.chunks where it is 1; null: "
                        "the recipe says them."},
                       memory.limit, {0, 1e18, RangeEnds::open_minimum});
  keys.boolean({"arena",
                "On CPUs, give the tensors of a step places in one block of memory of each rank, planned from when the "
                "first step allocated and freed them; what another step needs otherwise has memory of its own."},
               memory.arena);
  keys.integer(
      {"chunks",
       "Pieces, one after another, in which each block of an encoder, an encoder-decoder or an image classifier "
       "computes the part of it that takes most memory, cut along an axis that allows it: tokens, samples, "
       "features within a feed-forward network. What is within the pieces is not kept: the backward makes it "
       "again. 1: the blocks are computed whole."},
      memory.chunks, {1, 4'096});
  keys.choice({"policy",
               "A published way to leave tensors to the host, which sets what the recipe leaves out: \"zero_offload\" "
               "optimizer and gradients, a stage per layer; \"zero_infinity\" these, weights and activations, with "
               "ZeRO 3; \"harmony\" the same breadth first, with updates in the backward where nothing waits for the "
               "norm of all gradients; \"patrickstar\" optimizer, gradients and weights, with ZeRO 3, of as many "
               "stages as memory.limit has no room for; \"naive_swapping\" all of these as virtual memory would, each "
               "only when it is needed, with updates on the device."},
              memory.policy, offload_policy_words);
  keys.section({"offload", "What is kept in host memory, or on a disk, instead of device memory."}, [&] {
    keys.word_or_boolean(
        {"optimizer",
         "Optimizer state and master weights: true keeps them in the host's memory, \"disk\" in a file "
         "of each rank, which its updates read and write piece by piece, also on CPUs."},
        memory.offload.optimizer, states_place_words);
    keys.boolean({"gradients",
                  "With `optimizer`: gradients of each stage (pipeline.loops), as soon as they are final, which the "
                  "host then updates from."},
                 memory.offload.gradients);
    keys.boolean({"weights", "With ZeRO 3 and `optimizer`: weights of stages that are not in use."},
                 memory.offload.weights);
    keys.boolean({"activations", "Activations between forward and backward."}, memory.offload.activations);
    keys.integer(
        {"resident_stages",
         "With `optimizer`: stages of each pipeline rank, its last ones, whose optimizer states, gradients and "
         "weights stay on the device; fewer than pipeline.loops. memory.limit and plan --search raise it to the "
         "most that have room, where the host has the others' and that is faster."},
        memory.offload.resident_stages, {0, 1'000'000});
    keys.nullable_text(
        {"folder",
         "Where the files of optimizer \"disk\" are, relative to the working directory, such as a node's "
         "own scratch folder; they have no names, and go with the run. null: the run directory."},
        memory.offload.folder, {TextKind::working_path});
  });
}

}  // namespace

void describe_layout(KeyVisitor& keys, Recipe& recipe) {
  keys.section({"precision", "Data types."}, [&] { describe_precision(keys, recipe.precision); });
  keys.section({"parallel", "How the work is split over ranks."}, [&] { describe_parallel(keys, recipe.parallel); });
  keys.section({"pipeline", "How layers are split into stages and micro-batches scheduled on them."},
               [&] { describe_pipeline(keys, recipe); });
  keys.section({"memory", "What saves memory at the cost of time."}, [&] { describe_memory(keys, recipe.memory); });
  keys.section({"kernels", "Kernel implementations."}, [&] {
    keys.choice(
        {"attention",
         "Attention kernel: flash never stores the scores; math stores them and supports dropout; cudnn is flash by "
         "cuDNN's kernel, on GPUs, in bf16 or fp16, of whole sequences."},
        recipe.kernels.attention, attention_words);
    keys.boolean({"cuda_graphs",
                  "On GPUs, launch each pass of a micro-batch as one CUDA graph, from the third step on; the second "
                  "step captures them. Needs passes that are the same in every step, without the host or other ranks."},
                 recipe.kernels.cuda_graphs);
  });
}

}  // namespace llmtrain
