// SPDX-License-Identifier: Apache-2.0
// A model four times as large as the memory of its weights takes that memory, and the time that is planned. In a
// process of its own, whose largest memory is then this model's.
#include <ATen/Parallel.h>
#include <ATen/ops/full.h>

#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "parallel/engine/generation/decoder.h"
#include "parallel/engine/model_state.h"
#include "parallel/plan/inference/inference_plan.h"
#include "tests/parallel/engine/train_ranks.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

// Weights that nobody has in memory.
class MadeWeights final : public WeightSource {
 public:
  bool holds(const Parameter&) const override { return true; }
  at::ScalarType type(const Parameter&) const override { return at::kFloat; }
  // All boxes are views of one tensor: memory that is freed again may stay with the process.
  at::Tensor read(const Parameter&, const SliceBox& box) const override {
    return all_.narrow(0, 0, element_count(box.shape)).view(box.shape);
  }

 private:
  at::Tensor all_ = at::full({256 * 704}, 0.01);
};

Recipe recipe_of(const TrainingSetting& setting, int layers) {
  return setting.recipe({"model.hidden_size=256", "model.ffn_hidden_size=704", "model.max_sequence_length=64",
                         "model.layers=" + std::to_string(layers)});
}

std::int64_t weight_bytes(const Recipe& recipe) { return 4 * Graph::build(recipe.model).parameter_count(); }

// A decoder of such a model with three texts, which grow by a token in each pass.
class GrowingModel : LoneRank {
 public:
  GrowingModel(const Recipe& recipe, const WeightMemory& memory)
      : model_(std::make_shared<const Layout>(partition_by_blocks(recipe)), *communicator, memory) {
    load_weights(model_, MadeWeights());
    decoder_ = std::make_unique<Decoder>(model_, 3, 64);
  }

  void pass() {
    const std::vector<std::int64_t> token{7};
    std::vector<NewTokens> pieces;
    for (std::int64_t text = 0; text < 3; ++text) pieces.push_back({text, position_, token});
    decoder_->logits(pieces);
    ++position_;
  }

  const WeightStream& stream() { return *model_.weight_stream(); }

 private:
  LocalModel model_;
  std::unique_ptr<Decoder> decoder_;
  std::int64_t position_ = 0;
};

// A line of this process's status, in bytes: "VmRSS:     123 kB".
std::int64_t status_bytes(const std::string& name) {
  std::ifstream status("/proc/self/status");
  for (std::string word; status >> word;)
    if (word == name + ":") {
      std::int64_t kibibytes = 0;
      status >> kibibytes;
      return kibibytes << 10;
    }
  return 0;
}

}  // namespace

TEST_CASE("a model four times as large as its memory is loaded and read in that memory") {
  const TrainingSetting setting;
  const Recipe recipe = recipe_of(setting, 32);
  const std::int64_t limit = weight_bytes(recipe) / 4;
  const TemporaryDirectory folder;
  const auto memory = [&](std::int64_t bytes) {
    return WeightMemory{.bytes = bytes, .folder = folder.path().string()};
  };
  // What the libraries take once.
  {
    GrowingModel small(recipe_of(setting, 3), memory(0));
    small.pass();
  }
  [[maybe_unused]] const std::int64_t before = status_bytes("VmRSS");
  GrowingModel model(recipe, memory(limit));
  for (int pass = 0; pass < 3; ++pass) model.pass();
  CHECK(model.stream().weights().memory_bytes() <= limit);
  CHECK(model.stream().weights().bytes_per_pass >= 2 * weight_bytes(recipe) / 3);
  CHECK(model.stream().bytes_used() == 3 * model.stream().weights().bytes_per_pass);
  // Sanitizers keep what was freed, and have bytes of their own for each.
#if !defined(LLMTRAIN_SANITIZED)
  // Beside the weights: 6 MiB of keys and values, activations, and the huge pages that each layer's memory is rounded
  // up to.
  constexpr std::int64_t beside = std::int64_t{16} << 20;
  INFO(before << " before, " << status_bytes("VmHWM") << " at most");
  CHECK(status_bytes("VmHWM") - before <= limit + beside);
#endif
}

TEST_CASE("passes read what is planned to the byte, in the time that is planned") {
  // On a busy machine several threads would wait for each other for longer than a layer is read.
  at::set_num_threads(1);
  const TrainingSetting setting;
  const Recipe recipe = recipe_of(setting, 8);
  // So slow that nothing else counts.
  constexpr double rate = 80e6;
  ClusterProfile profile = load_profile("cpu", source_folder() / "recipes" / "clusters");
  profile.program = load_program("llmtrain", source_folder() / "recipes" / "programs", profile.device.kind);
  profile.host.disk_bandwidth = rate;
  const std::vector<std::string> request{"batch=3,prompt=8,generated=8,weights_from=disk"};
  const InferencePlan plan = InferencePlanner(recipe, profile).plan(parse_request("--inference", request));
  const TemporaryDirectory folder;
  GrowingModel model(recipe, {.folder = folder.path().string(), .bytes_per_second = rate});
  model.pass();
  constexpr int passes = 4;
  const auto start = std::chrono::steady_clock::now();
  for (int pass = 0; pass < passes; ++pass) model.pass();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count() / passes;
  CHECK(model.stream().bytes_used() == (1 + passes) * plan.reads->weights.bytes_per_pass);
  CHECK(model.stream().bytes_read() <=
        (1 + passes) * plan.reads->weights.bytes_per_pass + 2 * plan.reads->weights.largest_bytes);
  CHECK(plan.memory.weights == static_cast<double>(model.stream().weights().memory_bytes()));
  CHECK(seconds == Approx(plan.per_token_seconds).epsilon(0.15));
  CHECK(plan.first_token_seconds > plan.prefill.price.seconds());
}

}  // namespace llmtrain::test
