// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <cstdint>
#include <numeric>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/hints.h"
#include "core/recipe/pipeline_schedules.h"
#include "core/recipe/rules/rules.h"
#include "core/recipe/schedules/batch_sizes.h"

namespace llmtrain {
namespace {

// A global batch is whole multiples of it: micro-batches on every replica, and for some schedules groups of them.
struct BatchUnit {
  std::int64_t sequences = 1;
  std::int64_t micro_batches = 1;
  std::string words;
};

BatchUnit batch_unit(const Recipe& recipe, const Known& known) {
  const auto& pipeline = recipe.pipeline;
  const auto data = data_ranks(recipe, known);
  const auto group = micro_batch_group(pipeline.schedule, recipe.parallel.pipeline, pipeline.loops);
  const auto grouped = fmt::format(" × parallel.pipeline, as {} needs micro-batches in multiples of the pipeline ranks",
                                   traits_of(pipeline.schedule).word);
  const std::int64_t micros = data.value_or(1) * group;
  return {recipe.batch.micro * micros, micros,
          std::string("batch.micro") + (data ? " × parallel.data" : "") + (group > 1 ? grouped : "")};
}

Verdict check_batch(const Recipe& recipe, const Known& known) {
  const auto& batch = recipe.batch;
  const BatchUnit unit = batch_unit(recipe, known);
  if (batch.global % unit.sequences == 0) return {};
  Verdict verdict = must_be_multiple(batch.global, unit.sequences, unit.words);
  // Smaller micro-batches keep the global batch, on which the learning rate depends.
  if (data_ranks(recipe, known) && batch.global % unit.micro_batches == 0)
    verdict->hint += fmt::format(", or --set batch.micro={}", std::gcd(batch.micro, batch.global / unit.micro_batches));
  return verdict;
}

Verdict check_first_batch(const Recipe& recipe, const Known& known) {
  if (!recipe.batch.growth) return {};
  const BatchUnit unit = batch_unit(recipe, known);
  return must_be_multiple(recipe.batch.growth->start, unit.sequences, unit.words);
}

// The first batch is a multiple: so are all others where the increment is.
Verdict check_grown_batches(const Recipe& recipe, const Known& known) {
  if (!recipe.batch.growth) return {};
  const auto& [start, increment, samples] = *recipe.batch.growth;
  const BatchUnit unit = batch_unit(recipe, known);
  if (increment % unit.sequences == 0) return {};
  return Refusal{fmt::format("{} makes a batch of {} sequences, which is not a multiple of {}", increment,
                             start + increment, unit.sequences),
                 "must be a multiple of " + unit.words, std::to_string(nearest_multiple(increment, unit.sequences))};
}

Verdict check_start_of_growth(const Recipe& recipe, const Known&) {
  if (!recipe.batch.growth || recipe.batch.growth->start < recipe.batch.global) return {};
  return Refusal{fmt::format("{} leaves nothing to grow to", recipe.batch.growth->start),
                 fmt::format("must be less than batch.global ({})", recipe.batch.global)};
}

Verdict check_increment(const Recipe& recipe, const Known&) {
  // What is planned and looked up is a table of the sizes.
  constexpr std::int64_t most_sizes = 10'000;
  if (!recipe.batch.growth) return {};
  const auto& [start, increment, samples] = *recipe.batch.growth;
  const std::int64_t growth = recipe.batch.global - start;
  if (const Verdict verdict = must_divide(increment, growth, "batch.global − batch.growth.start")) return verdict;
  if (growth / increment <= most_sizes) return {};
  return Refusal{fmt::format("{} makes {} sizes", increment, growth / increment),
                 fmt::format("must make at most {}", most_sizes)};
}

// A schedule is a list of every pass, which plans walk through: the limit keeps that to a quarter of a second.
Verdict check_passes(const Recipe& recipe, const Known& known) {
  constexpr std::int64_t most_passes = 1 << 18;
  const auto& batch = recipe.batch;
  const auto data = data_ranks(recipe, known);
  if (!data) return {};
  const auto micros = batch.global / (batch.micro * *data);
  const auto stages = recipe.parallel.pipeline * recipe.pipeline.loops;
  if (micros <= most_passes / stages) return {};
  return Refusal{
      fmt::format("{} makes {} micro-batches on {}", batch.global, micros,
                  stages == 1 ? "1 stage" : fmt::format("{} stages", stages)),
      fmt::format("batch.global ÷ (batch.micro × parallel.data) × parallel.pipeline × pipeline.loops must be "
                  "at most {}; raise batch.micro",
                  most_passes)};
}

}  // namespace

std::vector<Rule> batch_rules() {
  const std::string_view global = "/batch/global", micro = "/batch/micro", start = "/batch/growth/start";
  const std::string_view increment = "/batch/growth/increment", update = "/training/update_in_backward";
  const std::vector<std::string_view> layout = {
      micro,  "/parallel/data",    "/launch/ranks", "/cluster/nodes", "/pipeline/schedule", "/pipeline/loops",
      update, "/parallel/pipeline"};
  const std::vector<std::string_view> passes = {
      micro,  "/parallel/data",    "/launch/ranks",      "/cluster/nodes",       "/pipeline/loops",
      update, "/pipeline/balance", "/parallel/pipeline", "/parallel/zero_stage", "/model/layers"};
  const auto stated = keys_of_stated_world({micro, "/pipeline/schedule", "/pipeline/loops", update});
  const auto with = [](std::vector<std::string_view> keys, std::string_view key) {
    keys.push_back(key);
    return keys;
  };
  return {
      {global, layout, check_batch},
      {global, passes, check_passes},
      {start, {global}, check_start_of_growth},
      {increment, {global, start}, check_increment},
      {start, layout, check_first_batch},
      {increment, with(layout, start), check_grown_batches},
      {global, stated, in_stated_world<check_batch>},
      {global,
       keys_of_stated_world(
           {micro, "/pipeline/loops", update, "/pipeline/balance", "/parallel/zero_stage", "/model/layers"}),
       in_stated_world<check_passes>},
      {start, stated, in_stated_world<check_first_batch>},
      {increment, with(stated, start), in_stated_world<check_grown_batches>},
  };
}

}  // namespace llmtrain
