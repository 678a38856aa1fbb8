// SPDX-License-Identifier: Apache-2.0
#include <span>

#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/support/support_cases.h"
#include "core/recipe/enum_words.h"
#include "core/recipe/pipeline_schedules.h"

namespace llmtrain::app {
namespace {

using Needs = std::vector<std::pair<std::string, std::string>>;

class Table {
 public:
  void add(const std::string& key, const std::vector<std::string>& values, const Needs& needs = {}) {
    for (const std::string& value : values) cases_.push_back({key, value, needs});
  }
  std::vector<SupportCase> take() { return std::move(cases_); }

 private:
  std::vector<SupportCase> cases_;
};

void add_model(Table& table) {
  table.add("model.architecture", {"gpt2", "gpt-rope", "llama"});
  table.add("model.dropout", {"0.1"});
  table.add("model.moe", {R"({"experts": 4})"});
}

void add_precision(Table& table) {
  for (const char* key : {"precision.compute", "precision.gradients"}) table.add(key, words_of(data_type_words));
  table.add("precision.fp8_level", {"O0", "O1", "O2", "O3"}, {{"precision.compute", "bf16"}});
}

void add_parallel(Table& table) {
  table.add("parallel.data", {"2"});
  table.add("parallel.zero_stage", {"1", "2", "3"}, {{"parallel.data", "2"}});
  table.add("parallel.zero_shard_ranks", {"2"}, {{"parallel.data", "4"}, {"parallel.zero_stage", "1"}});
  table.add("parallel.overlap", {"false"}, {{"parallel.data", "2"}});
  table.add("parallel.tensor", {"2"}, {{"parallel.sequence", "false"}});
  table.add("parallel.sequence", {"true"}, {{"parallel.tensor", "2"}});
  table.add("parallel.context", {"2"});
  table.add("parallel.expert", {"2"}, {{"parallel.data", "2"}, {"model.moe", R"({"experts": 4})"}});
  table.add("parallel.pipeline", {"2"});
}

void add_pipeline(Table& table) {
  for (const auto word : pipeline_schedule_words)
    table.add("pipeline.schedule", {std::string(word)}, {{"parallel.pipeline", "2"}});
  table.add("pipeline.loops", {"2"});
  table.add("pipeline.balance", {"blocks"}, {{"parallel.pipeline", "2"}});
}

void add_running(Table& table) {
  table.add("memory.recompute", {"none", "selective", "full"});
  table.add("memory.offload.optimizer", {"true"});
  table.add("memory.offload.weights", {"true"});
  table.add("memory.offload.activations", {"true"});
  table.add("kernels.attention", {"flash", "math"});
  table.add("cluster.nodes", {"2"}, {{"parallel.data", "\"auto\""}});
  // What "auto", the first, becomes is among the others.
  table.add("cluster.device", words_of(std::span(device_words).subspan(1)));
  table.add("launch.ranks", {"2"}, {{"parallel.data", "\"auto\""}});
  table.add("launch.backend", words_of(std::span(backend_words).subspan(1)));
}

std::vector<SupportCase> make_cases() {
  Table table;
  add_model(table);
  add_precision(table);
  add_parallel(table);
  add_pipeline(table);
  add_running(table);
  return table.take();
}

}  // namespace

const std::vector<SupportCase>& support_cases() {
  static const std::vector<SupportCase> cases = make_cases();
  return cases;
}

}  // namespace llmtrain::app
