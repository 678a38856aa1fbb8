// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/rules/rules.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <iterator>
#include <set>
#include <span>
#include <utility>

#include "core/base/error.h"
#include "core/json/json_text.h"
#include "core/recipe/hints.h"

namespace llmtrain {

Refusal refuse_true(std::string why, std::string needed) {
  return {"true, but " + std::move(why), "needs " + std::move(needed), "false"};
}

const std::vector<Rule>& all_rules() {
  // In this order, which is also the order of evaluation: a rule may rely on the earlier ones.
  static const std::vector<Rule> rules = [] {
    std::vector<Rule> all;
    for (const auto part :
         {model_rules,     encoder_rules, document_rules,   masking_rules,        denoising_rules,    label_rules,
          span_rules,      image_rules,   resnet_rules,     classifier_rules,     pair_rules,         precision_rules,
          world_rules,     layout_rules,  offload_rules,    batch_rules,          stated_world_rules, pipeline_rules,
          attention_rules, hybrid_rules,  curriculum_rules, token_dropping_rules, optimizer_rules,    cuda_graph_rules,
          size_rules,      running_rules, slurm_rules,      slurm_start_rules})
      std::ranges::copy(part(), std::back_inserter(all));
    return all;
  }();
  return rules;
}

namespace {

std::string hint_of(const Refusal& refusal, const Recipe& recipe, const Known& known, const Problems& problems) {
  if (refusal.settings == nullptr || !problems.empty()) return refusal.hint;
  const std::string settings = refusal.settings(recipe, known);
  if (refusal.hint.empty() || settings.empty() || settings == refusal.hint)
    return refusal.hint.empty() ? settings : refusal.hint;
  return refusal.hint + ", or " + settings;
}

}  // namespace

void check_rules(const Recipe& recipe, const Known& known, Problems& problems, const std::vector<Rule>& rules) {
  const auto is_clean = [&](std::string_view pointer) { return problems.is_clean(pointer); };
  for (const Rule& rule : rules) {
    // The condition is only evaluated for recipes with problems: valid ones, of which a search checks thousands, skip
    // it.
    if (!problems.empty() && !(is_clean(rule.refuses) && std::ranges::all_of(rule.reads, is_clean))) continue;
    if (const auto refusal = rule.check(recipe, known))
      problems.add(std::string(rule.refuses), refusal->what, refusal->rule, hint_of(*refusal, recipe, known, problems));
  }
}

void require_rules(const Recipe& recipe, const World& world) {
  // Without a document every key counts as given, and there is no file to name.
  static const Document unwritten;
  Problems problems(unwritten);
  check_rules(recipe, {.world = &world}, problems);
  if (!problems.empty()) throw Error(ExitCode::bad_recipe, problems.report(""));
}

Verdict must_be_multiple(std::int64_t value, std::int64_t divisor, std::string_view rule) {
  if (value % divisor == 0) return {};
  return Refusal{fmt::format("{} is not a multiple of {}", value, divisor),
                 fmt::format("must be a multiple of {}", rule), std::to_string(nearest_multiple(value, divisor))};
}

Verdict must_divide(std::int64_t value, std::int64_t whole, std::string_view rule) {
  if (whole % value == 0) return {};
  return Refusal{fmt::format("{} does not divide {}", value, whole), fmt::format("must divide {}", rule),
                 std::to_string(nearest_divisor(value, whole))};
}

Verdict must_name_classes(const std::vector<std::string>& names) {
  if (names.size() < 2)
    return Refusal{fmt::format("has {}", names.empty() ? "no class" : "one class"),
                   "must be the names of at least two classes"};
  std::set<std::string_view> seen;
  for (const std::string& name : names)
    if (!seen.insert(name).second)
      return Refusal{"has " + shown_text(name) + " twice", "must be names that each stand for one class"};
  return {};
}

const DataSource* token_file_of(const DataRecipe& data) {
  for (const auto* sources : {&data.train, &data.validation})
    for (const DataSource& source : *sources)
      if (source.path.ends_with(".bin")) return &source;
  return nullptr;
}

Verdict must_be_alone(const DataRecipe& data, std::string_view what, std::initializer_list<OtherSamples> others) {
  const std::array<OtherSamples, 2> before{
      {{"fine_tuning", data.fine_tuning.has_value()}, {"masking", data.masking.has_value()}}};
  const std::array<OtherSamples, 3> after{
      {{"document_mask", data.document_mask.has_value()},
       {"curriculum.sequence_length", data.curriculum.sequence_length.has_value()},
       {"curriculum.vocabulary_rarity", data.curriculum.vocabulary_rarity.has_value()}}};
  for (const std::span<const OtherSamples> part :
       {std::span<const OtherSamples>(before), std::span<const OtherSamples>(others.begin(), others.size()),
        std::span<const OtherSamples>(after)})
    for (const OtherSamples& other : part)
      if (other.is_given)
        return Refusal{fmt::format("is for {}", what), fmt::format("must be null with data.{}", other.key), "null"};
  return {};
}

}  // namespace llmtrain
