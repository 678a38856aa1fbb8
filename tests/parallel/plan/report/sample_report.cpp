// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/plan/report/sample_report.h"

#include "core/recipe/recipe_io.h"

namespace llmtrain::test {
namespace {

constexpr double gib = 1024.0 * 1024 * 1024;

constexpr const char* recipe_text = R"({
  "name": "gpt3-175b",
  "model": {"architecture": "gpt2", "layers": 96, "hidden_size": 12288, "heads": 96, "vocab_size": 51200,
            "max_sequence_length": 2048},
  "batch": {"global": 1536, "micro": 1},
  "training": {"steps": 95367},
  "precision": {"compute": "bf16"},
  "parallel": {"tensor": 8, "pipeline": 16, "data": 8},
  "pipeline": {"schedule": "1f1b"},
  "memory": {"recompute": "full"},
  "cluster": {"profile": "a100-80gb", "nodes": 128}
})";

PlannedRank sample_rank(std::int64_t pipeline_rank) {
  PlannedRank rank;
  rank.rank = pipeline_rank * 64;
  rank.count = 64;
  rank.pipeline_rank = pipeline_rank;
  const double activations = 32.0 - 2.0 * static_cast<double>(pipeline_rank);
  // weights, gradients, master weights, optimizer, activations, buffers, communication, framework
  const double sizes[] = {2.5, 5, 5, 10, activations, 4, 1, 1.5};
  for (std::size_t i = 0; i < memory_categories; ++i) rank.bytes.bytes[i] = sizes[i] * gib;
  rank.peak_bytes = (28 + activations) * gib;
  rank.peak_instruction = "Backward stage " + std::to_string(pipeline_rank) + " micro 3";
  return rank;
}

CommunicationEntry sample_line(Collective collective, Purpose purpose, const char* tensors, std::int64_t ranks,
                               double gibibytes, double seconds, double exposed) {
  return {.collective = collective,
          .purpose = purpose,
          .tensors = tensors,
          .ranks = ranks,
          .bytes_per_rank_per_step = gibibytes * gib,
          .seconds = seconds,
          .exposed_seconds = exposed};
}

}  // namespace

PlanReport sample_report() {
  PlanReport report;
  report.recipe = parse_recipe(recipe_text, "sample", ".");
  report.profile = "a100-80gb";
  report.device_memory_bytes = 80 * gib;
  report.fits = true;
  report.warnings = {"/parallel/zero_stage: 0: every one of the 8 data-parallel ranks holds the same 15 GiB"};
  report.total_parameters = 174'591'000'000;
  report.active_parameters = 174'591'000'000;
  report.embedding_parameters = 654'311'424;
  report.mesh = {.tensor = 8, .context = 1, .data = 8, .pipeline = 16, .zero_shard = 8, .devices_per_node = 8};
  report.step = {.seconds = 25,
                 .compute_seconds = 17.5,
                 .recompute_seconds = 5,
                 .tensor_communication_seconds = 2.5,
                 .optimizer_seconds = 0.75,
                 .overhead_seconds = 0.25,
                 .bubble_fraction = 0.072,
                 .exposed_communication_seconds = 3.5};
  report.throughput = {.tokens_per_second = 125829.12,
                       .tokens_per_second_per_device = 122.88,
                       .samples_per_second = 61.44,
                       .model_tflops_per_device = 132.6,
                       .hardware_tflops_per_device = 175.1,
                       .mfu = 0.425,
                       .hfu = 0.561};
  report.run = {.tokens = 3e11,
                .seconds = 2'384'175,
                .device_hours = 678165,
                .energy_kilowatt_hours = {},
                .goodput = {},
                .price = {}};
  for (std::int64_t rank = 0; rank < 16; ++rank) report.ranks.push_back(sample_rank(rank));
  report.communication = {
      sample_line(Collective::all_reduce, Purpose::tensor_parallel, "activations", 8, 300, 2.5, 2.5),
      sample_line(Collective::all_reduce, Purpose::data_parallel, "gradients", 8, 8.75, 0.8, 0.8),
      sample_line(Collective::send, Purpose::pipeline, "activations", 2, 9, 0.6, 0.2),
      sample_line(Collective::all_reduce, Purpose::control, "scalars", 1024, 1e-6, 1e-4, 1e-4)};
  report.accuracy = {.step = PlanError{.error = 0.052, .rows = 12, .program = "nemo"},
                     .memory = PlanError{.error = 0.1, .rows = 33, .program = ""},
                     .step_of_all = {},
                     .memory_of_all = {}};
  report.suggestions = {
      {.change = "memory.recompute=selective",
       .step_seconds = 21.5,
       .peak_bytes = 74 * gib,
       .fits = true,
       .is_tight = true},
      {.change = "pipeline.loops=3", .step_seconds = 24, .peak_bytes = 66 * gib, .fits = true},
      {.change = "parallel.zero_stage=1", .step_seconds = 24.75, .peak_bytes = 49 * gib, .fits = true}};
  return report;
}

}  // namespace llmtrain::test
