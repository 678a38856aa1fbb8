// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/exchange_record.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <utility>
#include <vector>

#include "core/json/json_memory.h"
#include "core/recipe/enum_words.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

using Json = nlohmann::ordered_json;

// What times depend on, as far as the recipe says it.
Json layout_json(const LocalModel& model) {
  Json recipe = to_json(model.recipe());
  // Prices change no time and must not make a run's trials void.
  for (const char* const of_plans : {"price_per_device_hour", "currency"}) recipe.at("cluster").erase(of_plans);
  return {{"model", recipe.at("model")},
          {"precision", recipe.at("precision")},
          {"parallel", recipe.at("parallel")},
          {"pipeline", recipe.at("pipeline")},
          {"memory", recipe.at("memory")},
          {"cluster", recipe.at("cluster")},
          {"micro_batch", recipe.at("batch").at("micro")},
          {"sequence_length", recipe.at("batch").at("sequence_length")},
          {"ranks", model.groups().mesh.world()}};
}

Json method_json(const ExchangeMethod& method) {
  return {{"parts", method.parts}, {"all_to_all", word_of(method.all_to_all)}};
}

ExchangeTrial trial_of(const Json& json) {
  const bool is_linear = json.at("all_to_all") == word_of(AllToAll::linear);
  return {.step = json.at("step").get<std::int64_t>() - 1,
          .bucket = json.at("bucket").get<std::size_t>(),
          .method = {json.at("parts").get<std::int64_t>(), is_linear ? AllToAll::linear : AllToAll::hierarchical},
          .seconds = json.at("seconds").get<double>()};
}

}  // namespace

namespace {

void add_exchanges(Json& record, const ExchangeTuner& tuner) {
  record["buckets"] = record["trials"] = Json::array();
  for (std::size_t bucket = 0; bucket < tuner.current().size(); ++bucket) {
    const auto& [method, is_final] = tuner.current()[bucket];
    Json entry{{"rows_from", static_cast<std::int64_t>(bucket) * tuner.methods().bucket_rows}, {"chosen", is_final}};
    entry.update(method_json(method));
    record["buckets"].push_back(std::move(entry));
  }
  for (const ExchangeTrial& trial : tuner.trials()) {
    Json entry{{"step", trial.step + 1}, {"bucket", trial.bucket}, {"seconds", trial.seconds}};
    entry.update(method_json(trial.method));
    record["trials"].push_back(std::move(entry));
  }
}

void add_split(Json& record, const SplitTuner& tuner) {
  record["split"] = {{"expert_tensor", tuner.current()}, {"chosen", tuner.is_final()}};
  record["split_trials"] = Json::array();
  for (const SplitTrial& trial : tuner.trials())
    record["split_trials"].push_back(
        {{"step", trial.step + 1}, {"expert_tensor", trial.split}, {"seconds", trial.seconds}});
}

SplitTrial split_trial_of(const Json& json) {
  return {.step = json.at("step").get<std::int64_t>() - 1,
          .split = json.at("expert_tensor").get<std::int64_t>(),
          .seconds = json.at("seconds").get<double>()};
}

bool has_splits_of(const SplitTuner& tuner, const std::vector<SplitTrial>& trials) {
  const auto& splits = tuner.splits();
  return std::ranges::all_of(
      trials, [&](const SplitTrial& trial) { return std::ranges::find(splits, trial.split) != splits.end(); });
}

}  // namespace

bool tries_exchanges(const LocalModel& model) {
  const MixtureParallel& mixture = model.groups().mixture;
  return mixture.tuner() != nullptr || mixture.split_tuner() != nullptr;
}

std::string exchange_record(const LocalModel& model) {
  const MixtureParallel& mixture = model.groups().mixture;
  Json record{{"layout", layout_json(model)}};
  if (mixture.split_tuner() != nullptr) add_split(record, *mixture.split_tuner());
  if (mixture.tuner() != nullptr) add_exchanges(record, *mixture.tuner());
  return record.dump(1) + "\n";
}

bool use_exchange_record(const LocalModel& model, std::string_view text) {
  const MixtureParallel& mixture = model.groups().mixture;
  if (is_too_large_json(text)) return false;
  try {
    const Json record = Json::parse(text);
    if (record.at("layout") != layout_json(model)) return false;
    std::vector<ExchangeTrial> trials;
    std::vector<SplitTrial> split_trials;
    if (mixture.tuner() != nullptr)
      for (const Json& trial : record.at("trials")) trials.push_back(trial_of(trial));
    if (mixture.split_tuner() != nullptr)
      for (const Json& trial : record.at("split_trials")) split_trials.push_back(split_trial_of(trial));
    if (mixture.split_tuner() != nullptr && !has_splits_of(*mixture.split_tuner(), split_trials)) return false;
    if (mixture.tuner() != nullptr) mixture.tuner()->set_trials(std::move(trials));
    if (mixture.split_tuner() != nullptr) mixture.split_tuner()->set_trials(std::move(split_trials));
    return true;
  } catch (const nlohmann::json::exception&) {
    return false;
  }
}

std::string split_text(const SplitTuner& tuner) {
  const std::int64_t ranks = tuner.current();
  return fmt::format("experts are {}: of {} splits the fastest",
                     ranks == 1 ? std::string("whole on each rank") : fmt::format("split over {} ranks", ranks),
                     tuner.splits().size());
}

std::string exchange_text(const ExchangeTuner& tuner, std::size_t bucket) {
  const auto& [parts, all_to_all] = tuner.current()[bucket].method;
  const auto rows = static_cast<std::int64_t>(bucket + 1) * tuner.methods().bucket_rows;
  const std::string whole = parts == 1 ? "without parts" : fmt::format("in {} parts", parts);
  return fmt::format("experts exchange rows {}, {}, where none gets more than {} from a rank: of {} ways the fastest",
                     whole, all_to_all == AllToAll::linear ? "linearly" : "hierarchically", rows - 1,
                     tuner.methods().of_buckets[bucket].size());
}

}  // namespace llmtrain
