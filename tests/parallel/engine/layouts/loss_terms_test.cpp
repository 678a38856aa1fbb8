// SPDX-License-Identifier: Apache-2.0
// A model with two weighted losses learns in every layout what autograd says, and evaluates to both.
#include <ATen/ATen.h>

#include <array>
#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "parallel/engine/data/batch_loader.h"
#include "parallel/engine/inference.h"
#include "tests/core/model/two_headed_reference.h"
#include "tests/parallel/engine/named_weights.h"
#include "tests/parallel/engine/train_ranks.h"
#include "tests/parallel/engine/two_headed_layout.h"

namespace llmtrain::test {
namespace {

// The samples of another source, which weigh something else in the second term: nearly a third, and not the same share
// of any two.
class OtherWeights final : public SampleSource {
 public:
  explicit OtherWeights(const SampleSource& samples) : samples_(samples) {}

  std::span<const SampleField> fields() const override { return samples_.fields(); }
  std::span<const SampleSequence> sequences() const override { return samples_.sequences(); }
  std::int64_t samples() const override { return samples_.samples(); }
  void read(std::int64_t number, const FieldMemory& into) const override { samples_.read(number, into); }
  double weight(std::size_t term, std::int64_t first, std::int64_t count) const override {
    const double own = samples_.weight(0, first, count);
    return term == 0 ? own : 0.3 * own + static_cast<double>(first + count);
  }

 private:
  const SampleSource& samples_;
};

using Layer = std::optional<std::int64_t>;  // that the second head reads, or none

struct Objective {
  std::array<double, 2> terms{};
  double loss = 0, norm = 0;
};

// At a model's weights, for the first samples of a source.
Objective by_autograd(const LocalModel& model, Layer layer, const SampleSource& samples, std::int64_t count) {
  NamedTensors parameters;
  for (const auto& [name, weight] : named_weights(model)) parameters[name] = weight.to(at::kDouble).requires_grad_();
  const TwoLosses losses =
      two_headed_losses(model.recipe().model, parameters, load_samples(samples, {}, 0, count, at::kCPU), layer);
  const at::Tensor first = losses.first.sum() / samples.weight(0, 0, count),
                   second = losses.second.sum() / samples.weight(1, 0, count);
  const at::Tensor loss = first + second_coefficient * second;
  loss.backward();
  double squares = 0;
  for (const auto& [name, parameter] : parameters) squares += parameter.grad().square().sum().item<double>();
  return {{first.item<double>(), second.item<double>()}, loss.item<double>(), std::sqrt(squares)};
}

struct Learned {
  Evaluation before;  // of five samples
  std::vector<StepResult> steps;
};

StepResult train_step(Trainer& trainer, std::int64_t step) {
  const Recipe& recipe = trainer.recipe();
  LocalModel& model = trainer.model();
  const BatchPlace place{step, step * recipe.batch.global, trainer.runner().shapes().at(step)};
  const StepSamples samples(trainer.train_data(), recipe.batch, place);
  const DataRank rank = data_rank(model.groups(), recipe.batch.sequence_length, model.fields());
  auto micros = load_batch(OtherWeights(samples), model.graph().row_losses(), recipe, place, rank, at::kCPU);
  for (PassInput& micro : micros) micro.context.set_backward_scale(model.loss_scale().value());
  return trainer.runner().step(micros, step);
}

// What the last rank finds, which has the heads, and all others, too.
Learned learn(const Recipe& recipe, int ranks, Layer layer = {}) {
  const auto layout = two_headed_layout(recipe, ranks, layer);
  std::vector<Learned> learned(static_cast<std::size_t>(ranks));
  LocalWorld(ranks).run([&](Communicator& communicator) {
    Trainer trainer(layout, communicator, at::kCPU);
    Learned& own = learned[static_cast<std::size_t>(communicator.rank())];
    own.before = evaluate(trainer.model(), OtherWeights(*trainer.validation_data()), 5);
    for (std::int64_t step = 0; step < 3; ++step) own.steps.push_back(train_step(trainer, step));
  });
  for (const Learned& each : learned) {
    CHECK(each.before.loss == learned.back().before.loss);
    CHECK(each.steps.back().loss == learned.back().steps.back().loss);
    CHECK(each.steps.back().terms.back().value == learned.back().steps.back().terms.back().value);
  }
  return learned.back();
}

struct Expected {
  Objective evaluated, first_step;
  Learned on_one_rank;
};

Expected expected_of(const Recipe& recipe, Layer layer = {}) {
  LoneRank alone;
  Trainer trainer(two_headed_layout(recipe, 1, layer), *alone.communicator, at::kCPU);
  const BatchPlace place{0, 0, StepShapes(recipe).at(0)};
  const StepSamples samples(trainer.train_data(), recipe.batch, place);
  const LocalModel& model = trainer.model();
  return {by_autograd(model, layer, OtherWeights(*trainer.validation_data()), 5),
          by_autograd(model, layer, OtherWeights(samples), samples.samples()), learn(recipe, 1, layer)};
}

void check_terms(const std::vector<LossValue>& terms, const std::array<double, 2>& expected, double tolerance) {
  REQUIRE(terms.size() == 2);
  CHECK(terms[0].name == "loss");
  CHECK(terms[1].name == "second");
  for (std::size_t i = 0; i < 2; ++i) CHECK(terms[i].value == Approx(expected[i]).epsilon(tolerance));
}

void check_learned(const Learned& learned, const Expected& expected, double tolerance) {
  check_terms(learned.before.terms, expected.evaluated.terms, tolerance);
  CHECK(learned.before.loss == Approx(expected.evaluated.loss).epsilon(tolerance));
  const StepResult& first = learned.steps.front();
  check_terms(first.terms, expected.first_step.terms, tolerance);
  CHECK(first.loss == Approx(expected.first_step.loss).epsilon(tolerance));
  CHECK(first.gradient_norm == Approx(expected.first_step.norm).epsilon(10 * tolerance));
  for (std::size_t i = 1; i < learned.steps.size(); ++i) {
    const StepResult &got = learned.steps[i], &same = expected.on_one_rank.steps[i];
    check_terms(got.terms, {same.terms[0].value, same.terms[1].value}, tolerance);
    CHECK(got.loss == Approx(same.loss).epsilon(tolerance));
    CHECK(got.gradient_norm == Approx(same.gradient_norm).epsilon(10 * tolerance));
  }
}

const std::vector<RankCase> cases{
    {1, {}},
    {1, {"batch.micro=2", "memory.recompute=full"}},
    {2, {"batch.micro=1"}},
    {2, {"batch.micro=2", zero(3)}},
    {2, {"parallel.tensor=2"}},
    {2, {"parallel.tensor=2", "parallel.sequence=false"}},
    {2, {"parallel.context=2"}},
    {2, {"parallel.pipeline=2", "pipeline.balance=[2,1]", "batch.micro=1"}},
    {4, {"parallel.pipeline=2", "pipeline.balance=[2,1]", "parallel.tensor=2", "batch.micro=2"}},
    {4, {"parallel.pipeline=2", "pipeline.balance=[2,1]", zero(2), "batch.micro=1"}},
    // Each head has a stage of its own.
    {5, {"parallel.pipeline=5", "pipeline.balance=blocks", "batch.micro=2"}},
    {1, {"pipeline.loops=5", "pipeline.balance=blocks", "batch.micro=2"}},
};

}  // namespace

TEST_CASE("two losses with weights of their own are learned as autograd says, in every layout", "[ranks]") {
  const TrainingSetting setting;
  for (const bool is_tied : {false, true}) {
    const Overrides model{is_tied ? "model.tie_embeddings=true" : "model.tie_embeddings=false"};
    const Expected expected = expected_of(setting.recipe(model));
    for (const RankCase& layout : cases) {
      INFO(in_words(layout.ranks, model + layout.overrides));
      check_learned(learn(setting.recipe(model + layout.overrides), layout.ranks), expected, 1e-5);
    }
  }
}

TEST_CASE("a head of an early layer's value, which crosses two cuts, is learned as autograd says", "[ranks]") {
  const TrainingSetting setting;
  const Overrides model{"model.tie_embeddings=false"};
  const Expected expected = expected_of(setting.recipe(model), 0);
  const std::vector<RankCase> layouts{
      {1, {"pipeline.loops=3", "batch.micro=2"}},
      {3, {"parallel.pipeline=3", "batch.micro=1"}},
      {3, {"parallel.pipeline=3", "memory.recompute=full"}},
      {4, {"parallel.pipeline=2", "pipeline.balance=[2,1]", "parallel.tensor=2", "batch.micro=2"}},
      {5, {"parallel.pipeline=5", "pipeline.balance=blocks", "batch.micro=2"}},
      {6, {"parallel.pipeline=3", zero(3), "batch.micro=4"}},
  };
  for (const RankCase& layout : layouts) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_learned(learn(setting.recipe(model + layout.overrides), layout.ranks, 0), expected, 1e-5);
  }
}

TEST_CASE("fp16's loss scale is in no gradient of two losses", "[ranks]") {
  const TrainingSetting setting;
  const Overrides fp16{"precision.compute=\"fp16\"", "precision.loss_scale.initial=256",
                       "precision.loss_scale.growth_steps=1"};
  const Expected expected = expected_of(setting.recipe(fp16));
  for (const RankCase& layout : {cases[0], cases[3], cases[4], cases[7]}) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_learned(learn(setting.recipe(fp16 + layout.overrides), layout.ranks), expected, 2e-3);
  }
}

// Each micro-batch has another number of them.
TEST_CASE("two losses of the rows that count are learned as autograd says", "[ranks]") {
  const TrainingSetting setting;
  std::string lines;
  for (int i = 0; i < 8; ++i)
    lines += R"({"prompt": ")" + std::string(static_cast<std::size_t>(3 + i), static_cast<char>('a' + i)) +
             R"(", "completion": ")" + std::string(static_cast<std::size_t>(10 - i), static_cast<char>('k' + i)) +
             "\"}\n";
  const std::string file = setting.directory().write("chat.jsonl", lines).string();
  const Overrides tuning{"data.train.0.path=" + file, "data.validation.0.path=" + file,
                         "data.fine_tuning.packing=false", "data.shuffle=false"};
  const Expected expected = expected_of(setting.recipe(tuning));
  for (const RankCase& layout : {cases[0], cases[2], cases[4], cases[6], cases[7]}) {
    INFO(in_words(layout.ranks, layout.overrides));
    check_learned(learn(setting.recipe(tuning + layout.overrides), layout.ranks), expected, 1e-5);
  }
}

}  // namespace llmtrain::test
