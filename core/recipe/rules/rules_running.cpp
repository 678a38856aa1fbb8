// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cctype>
#include <cstddef>
#include <string>

#include "core/json/json_file.h"
#include "core/recipe/keys/key_visitor.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

Verdict check_kept_checkpoints(const Recipe& recipe, const Known&) {
  const CheckpointRecipe& checkpoint = recipe.checkpoint;
  if (checkpoint.keep_every == 0) return {};
  if (checkpoint.every == 0)
    return Refusal{fmt::format("{} keeps none", checkpoint.keep_every),
                   "needs checkpoint.every, which says after which steps there are checkpoints", "0"};
  return must_be_multiple(checkpoint.keep_every, checkpoint.every, "checkpoint.every");
}

// Each checkpoint has a loss of its own then.
Verdict check_best_checkpoints(const Recipe& recipe, const Known&) {
  const std::int64_t every = recipe.checkpoint.every, evaluations = recipe.training.evaluate_every;
  if (recipe.checkpoint.keep_best == 0) return {};
  if (every > 0 && evaluations > 0 && every % evaluations == 0) return {};
  return Refusal{fmt::format("{} needs an evaluation at each checkpoint", recipe.checkpoint.keep_best),
                 fmt::format("needs a checkpoint.every above 0 ({} here) that training.evaluate_every ({}) divides",
                             every, evaluations),
                 "0"};
}

Verdict check_early_stopping(const Recipe& recipe, const Known&) {
  if (!recipe.training.early_stopping || recipe.training.evaluate_every > 0) return {};
  return Refusal{"there are no evaluations to judge by", "needs a training.evaluate_every above 0", "null"};
}

// As Linux limits them; a comma would separate two names for MPI and NCCL.
bool is_interface_name(const std::string& name) {
  constexpr std::size_t most = 15;
  return name.size() <= most && std::ranges::all_of(name, [](unsigned char letter) {
           return std::isgraph(letter) != 0 && letter != ',' && letter != '/';
         });
}

Verdict check_network_interfaces(const Recipe& recipe, const Known&) {
  const LaunchRecipe& launch = recipe.launch;
  if (launch.network_interfaces.empty()) return {};
  for (const std::string& name : launch.network_interfaces)
    if (!is_interface_name(name))
      return Refusal{fmt::format("{} is no interface's name", quoted_text(name)),
                     "must be of up to 15 characters, as ip link shows it"};
  if (launch.backend == CommunicationBackend::local)
    return Refusal{"launch.backend \"local\" uses no network", "must be empty", "[]"};
  if (recipe.cluster.nodes == 1)
    return Refusal{"ranks of one node use no network", "needs cluster.nodes above 1", "[]"};
  return {};
}

Verdict check_validation_names(const Recipe& recipe, const Known&) {
  std::vector<std::string> names;
  for (const DataSource& source : recipe.data.validation) {
    if (source.name.has_value() != are_named_sets(recipe.data.validation))
      return Refusal{"some of its entries have a name, and others have none",
                     "needs a name for all of them, or for none"};
    if (source.name && std::ranges::count(names, *source.name) > 0)
      return Refusal{"has two sets with the name " + *source.name, "must have names that differ"};
    if (source.name) names.push_back(*source.name);
  }
  return {};
}

Verdict check_judged_by(const Recipe& recipe, const Known&) {
  const auto& judged_by = recipe.training.judged_by;
  if (!judged_by || recipe.data.train.empty()) return {};
  for (const DataSource& source : recipe.data.validation)
    if (source.name == judged_by) return {};
  return Refusal{*judged_by + " names no set of data.validation", "must be the name of one of its sets, or null",
                 "null"};
}

// Which of the data an epoch is of.
Verdict check_epochs(const Recipe& recipe, const Known&) {
  const TrainingRecipe& training = recipe.training;
  if (!training.epochs) return {};
  const std::string given = number_words(*training.epochs);
  if (training.steps > 0)
    return Refusal{fmt::format("{} stands beside training.steps {}", given, training.steps),
                   "a run's length is given by one of the two", "null"};
  if (recipe.data.train.size() > 1)
    return Refusal{fmt::format("{} of {} sources, which are drawn from by their weights and not one after another",
                               given, recipe.data.train.size()),
                   "needs one source in data.train, which may be a folder or a glob; with several, training.steps"};
  if (recipe.data.curriculum.vocabulary_rarity)
    return Refusal{given + " of samples of which the easy ones are read more often",
                   "needs data.curriculum.vocabulary_rarity null, or training.steps"};
  return {};
}

}  // namespace

std::vector<Rule> running_rules() {
  return {{"/training/epochs", {"/training/steps", "/data/train", "/data/curriculum/vocabulary_rarity"}, check_epochs},
          {"/data/validation", {}, check_validation_names},
          {"/training/judged_by", {"/data/validation", "/data/train"}, check_judged_by},
          {"/checkpoint/keep_every", {"/checkpoint/every"}, check_kept_checkpoints},
          {"/checkpoint/keep_best", {"/checkpoint/every", "/training/evaluate_every"}, check_best_checkpoints},
          {"/training/early_stopping", {"/training/evaluate_every"}, check_early_stopping},
          {"/launch/network_interfaces", {"/launch/backend", "/cluster/nodes"}, check_network_interfaces}};
}

}  // namespace llmtrain
