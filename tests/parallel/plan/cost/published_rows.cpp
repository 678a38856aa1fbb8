// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/plan/cost/published_rows.h"

#include <algorithm>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <stdexcept>
#include <utility>

#include "core/recipe/recipe_io.h"

namespace llmtrain::published {
namespace {

using Columns = std::map<std::string, std::string>;

// Fields of a line; a quoted field may contain commas.
std::vector<std::string> split(const std::string& line) {
  std::vector<std::string> fields(1);
  bool quoted = false;
  for (const char character : line) {
    if (character == '"') {
      quoted = !quoted;
    } else if (character == ',' && !quoted) {
      fields.emplace_back();
    } else if (character != '\r') {
      fields.back() += character;
    }
  }
  return fields;
}

std::int64_t whole(const Columns& columns, const std::string& name) { return std::stoll(columns.at(name)); }
bool truth(const Columns& columns, const std::string& name) { return columns.at(name) == "true"; }

bool is_zero_bubble(const Columns& columns) { return columns.at("source").starts_with("Zero Bubble"); }

// The Zero Bubble paper prints neither vocabulary nor dropout. Its script takes a SentencePiece tokenizer and
// Megatron's default dropout (sail-sg/zero-bubble-pipeline-parallelism, examples/pretrain_zero_bubble.sh). With the
// 51,200 of the table the head would take 1.7 layers' products in the smaller model, while the printed bubbles are
// those of even stages: 32,000, which makes it one layer, is assumed.
std::int64_t vocabulary_of(const Columns& columns) { return is_zero_bubble(columns) ? 32000 : whole(columns, "vocab"); }
double dropout_of(const Columns& columns) { return is_zero_bubble(columns) ? 0.1 : std::stod(columns.at("dropout")); }

nlohmann::json model_of(const Columns& columns) {
  nlohmann::json model = {{"architecture", columns.at("architecture")},
                          {"layers", whole(columns, "layers")},
                          {"hidden_size", whole(columns, "hidden")},
                          {"heads", whole(columns, "heads")},
                          {"kv_heads", whole(columns, "kv_heads")},
                          {"ffn_hidden_size", whole(columns, "ffn")},
                          {"vocab_size", vocabulary_of(columns)},
                          {"max_sequence_length", whole(columns, "sequence")},
                          {"dropout", dropout_of(columns)}};
  if (columns.at("note").find("no biases") != std::string::npos) model["bias"] = model["qkv_bias"] = false;
  return model;
}

bool starts_with(const Columns& columns, const std::string& name, const std::string& start) {
  return columns.at(name).starts_with(start);
}

// If the number of loops is not stated, one layer per stage is assumed, as in NVIDIA's own configurations.
std::int64_t loops_of(const Columns& columns) {
  const std::int64_t layers = whole(columns, "layers"), pipeline = whole(columns, "pipeline");
  if (starts_with(columns, "loops", "one layer")) return (layers + 2) / pipeline;
  const bool unknown = columns.at("note").find("number of loops not printed") != std::string::npos;
  return unknown && pipeline > 1 ? layers / pipeline : whole(columns, "loops");
}

nlohmann::json recipe_of(const Columns& columns) {
  const bool by_blocks = starts_with(columns, "loops", "one layer") || starts_with(columns, "source", "Zero Bubble");
  return {{"model", model_of(columns)},
          {"batch", {{"global", whole(columns, "global_batch")}, {"micro", whole(columns, "micro_batch")}}},
          {"training", {{"steps", 1}}},
          {"precision",
           {{"compute", columns.at("compute")},
            {"gradients", columns.at("gradients")},
            {"fp8_level", columns.at("fp8_level")}}},
          {"parallel",
           {{"tensor", whole(columns, "tensor")},
            {"sequence", truth(columns, "sequence_parallel")},
            {"context", whole(columns, "context")},
            {"pipeline", whole(columns, "pipeline")},
            {"data", whole(columns, "data")},
            {"zero_stage", whole(columns, "zero")},
            {"overlap", truth(columns, "overlap")}}},
          {"pipeline",
           {{"schedule", columns.at("schedule")},
            {"loops", loops_of(columns)},
            {"balance", by_blocks ? "blocks" : "layers"}}},
          {"memory", {{"recompute", columns.at("recompute")}}},
          {"kernels", {{"attention", truth(columns, "flash_attention") ? "flash" : "math"}}},
          {"cluster",
           {{"profile", columns.at("hardware")},
            {"devices_per_node", whole(columns, "devices_per_node")},
            {"nodes", (whole(columns, "devices") + whole(columns, "devices_per_node") - 1) /
                          whole(columns, "devices_per_node")}}}};
}

bool is_megatron_core(const std::string& source) { return source.starts_with("Megatron-LM README"); }

// What the README's flags enable (overlap of tensor-parallel communication), and the attention that its program uses:
// Megatron-Core 0.8 uses TransformerEngine's, which prefers cuDNN's kernel on Hopper ("Select FusedAttention on sm90
// and FlashAttention on others for performance", transformer_engine/pytorch/attention.py since December 2023), whereas
// the profile was fitted to FlashAttention's. The FlashAttention-3 paper measured cuDNN on this device at the rows'
// head dimension of 128 and 4,096 tokens (arXiv 2407.08608, figures 5 and 6): 518 TFLOP/s forward with the mask and 609
// without, 499 backward without; the masked backward is assumed to lose as much as the masked forward.
CostConstants megatron_core(const CostConstants& constants) {
  constexpr double peak = 989.5, forward = 518, backward = 499.0 * 518 / 609;
  CostConstants of_program = constants;
  of_program.tensor_overlap = TensorOverlap::products;
  of_program.attention = AttentionProfile{forward / peak, backward / peak};
  return of_program;
}

// Zero Bubble's table does not measure bubbles: it simulates the schedule with profiled times, the same for all stages
// (sail-sg/zero-bubble-pipeline-parallelism v0.1.0, zb_schedules.py: "Using uniform f/b/w timing for now", the median
// over stages).
StepCosts with_even_stages(StepCosts costs) {
  std::vector<double> forward, backward;
  for (const StageCost& stage : costs.stages) {
    forward.push_back(stage.forward.seconds);
    backward.push_back(stage.backward.seconds);
  }
  const auto median = [](std::vector<double>& seconds) {
    std::sort(seconds.begin(), seconds.end());
    return seconds[seconds.size() / 2];
  };
  const double forward_seconds = median(forward), backward_seconds = median(backward);
  for (StageCost& stage : costs.stages) {
    stage.forward.seconds = forward_seconds;
    stage.backward.seconds = backward_seconds;
  }
  return costs;
}

double weight_traffic_gibibytes(const Plan& plan, const ClusterProfile& profile) {
  double bytes = 0;
  for (const auto& entry : communication_of(plan.layout, profile))
    if (entry.purpose == Purpose::data_parallel) bytes += entry.bytes_per_rank_per_step;
  return bytes / (1024.0 * 1024 * 1024);
}

}  // namespace

std::vector<Row> read_rows(const std::filesystem::path& csv) {
  std::ifstream file(csv);
  std::string line;
  if (!std::getline(file, line)) throw std::runtime_error("cannot read " + csv.string());
  const std::vector<std::string> names = split(line);
  std::map<std::string, int> counts;
  std::vector<Row> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = split(line);
    if (fields.size() != names.size()) throw std::runtime_error("bad line: " + line);
    Columns columns;
    for (std::size_t index = 0; index < names.size(); ++index) columns[names[index]] = fields[index];
    Row row;
    row.source = columns["source"];
    row.hardware = columns["hardware"];
    row.metric = columns["metric"];
    row.note = columns["note"];
    row.value = std::stod(columns["value"]);
    row.recipe_text = recipe_of(columns).dump();
    row.held_out = counts[row.source + row.metric]++ % 3 == 2;
    rows.push_back(row);
  }
  return rows;
}

Plan::Plan(const Row& row, std::int64_t devices_per_node)
    : layout([&] {
        const Recipe recipe = parse_recipe(row.recipe_text, row.source, ".");
        return Partition::make(recipe, recipe.cluster.devices_per_node.value_or(devices_per_node));
      }()) {}

std::optional<double> predict(const Row& row, const Plan& plan, const ClusterProfile& profile,
                              const CostConstants& constants) {
  if (row.metric == "data_parallel_communication") return weight_traffic_gibibytes(plan, profile);
  if (row.metric == "activations" || row.metric == "model_states" || row.metric == "peak_memory") return std::nullopt;
  const CostConstants of_program = is_megatron_core(row.source) ? megatron_core(constants) : constants;
  Partition partition = plan.layout.partition();
  // Transfers overlap with the passes in Zero Bubble's simulation.
  if (row.metric == "bubble_fraction") partition.recipe.parallel.overlap = true;
  StepCosts costs = make_step_costs(partition, profile, of_program);
  if (row.metric == "bubble_fraction") costs = with_even_stages(std::move(costs));
  StepMemory memory;
  memory.stages.resize(partition.stages.size());
  const Simulation simulation = simulate(plan.layout.schedule(), costs, memory);
  const auto samples = static_cast<double>(partition.recipe.batch.global) / simulation.step_seconds;
  const auto devices = static_cast<double>(partition.mesh.world());
  const std::int64_t length = partition.recipe.batch.sequence_length;
  const double tokens = samples * static_cast<double>(length);
  if (row.metric == "step_seconds") return simulation.step_seconds;
  if (row.metric == "bubble_fraction") return simulation.bubble_fraction;
  if (row.metric == "samples_per_second") return samples;
  if (row.metric == "samples_per_second_per_device") return samples / devices;
  if (row.metric == "tokens_per_second_per_device") return tokens / devices;
  if (row.metric == "model_tflops_per_device") {
    return tokens / devices * partition.graph->training_flops_per_token(length) / 1e12;
  }
  throw std::runtime_error("unknown metric " + row.metric);
}

}  // namespace llmtrain::published
