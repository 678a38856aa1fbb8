// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/document.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The number of ranks, and how many of them share a node.
struct World {
  std::int64_t ranks = 1;
  std::int64_t devices_per_node = 1;
};

// tensor × pipeline × context: the ranks of one data-parallel replica.
std::int64_t ranks_per_replica(const ParallelRecipe& parallel);

// `launch.ranks`, else the product of the degrees where `parallel.data` is given, else none. In floating point, which
// no degrees overflow.
std::optional<double> ranks_asked_for(const Recipe& recipe);

// The ranks that the recipe asks for, else nodes × devices per node. `devices_per_node` is the recipe's or, where it is
// left open, the profile's; at least 1.
World world_of(const Recipe& recipe, std::int64_t devices_per_node);

// Context of a recipe.
struct Known {
  const World* world = nullptr;        // null: not known yet
  const Document* document = nullptr;  // what the user wrote; null: every key counts as given
};

// How a recipe breaks a rule; `hint` is the nearest valid value, if any. `settings`, if any, finds flags of several
// keys with which no rule is broken, or "": it reads all keys, and is asked only where no other one has a problem.
struct Refusal {
  std::string what;
  std::string rule;
  std::string hint{};
  std::string (*settings)(const Recipe& recipe, const Known& known) = nullptr;
};

using Verdict = std::optional<Refusal>;

// The refusal of a switch that is true, and could be with what is needed.
Refusal refuse_true(std::string why, std::string needed);

// A constraint between keys. The keys are JSON pointers.
struct Rule {
  std::string_view refuses;             // the key that is reported
  std::vector<std::string_view> reads;  // the other keys it reads, and those that their defaults depend on
  Verdict (*check)(const Recipe& recipe, const Known& known);
};

// All rules between keys, and their parts.
const std::vector<Rule>& all_rules();
std::vector<Rule> model_rules();       // and of training
std::vector<Rule> masking_rules();     // of hidden tokens
std::vector<Rule> label_rules();       // of texts with labels
std::vector<Rule> span_rules();        // of questions and their answers in texts
std::vector<Rule> classifier_rules();  // of heads for classes
std::vector<Rule> denoising_rules();   // of texts that are damaged
std::vector<Rule> pair_rules();        // of sources and targets
std::vector<Rule> image_rules();       // of models of images, and their data
std::vector<Rule> resnet_rules();      // of residual networks
std::vector<Rule> attention_rules();   // of the kinds of attention
std::vector<Rule> hybrid_rules();      // of layers of several kinds, and of linear attention
std::vector<Rule> encoder_rules();
std::vector<Rule> precision_rules();
std::vector<Rule> world_rules();
std::vector<Rule> layout_rules();
std::vector<Rule> offload_rules();
std::vector<Rule> batch_rules();         // sizes of batches in layouts
std::vector<Rule> stated_world_rules();  // of layouts whose ranks the recipe says
std::vector<Rule> pipeline_rules();
std::vector<Rule> document_rules();
std::vector<Rule> curriculum_rules();
std::vector<Rule> token_dropping_rules();
std::vector<Rule> optimizer_rules();
std::vector<Rule> cuda_graph_rules();
std::vector<Rule> size_rules();
std::vector<Rule> running_rules();
std::vector<Rule> slurm_rules();        // what a job asks Slurm for
std::vector<Rule> slurm_start_rules();  // how its script starts the ranks

// Reports which rules are broken. A rule is evaluated only where all keys that it reads and refuses are valid by
// themselves and were not refused by an earlier rule.
void check_rules(const Recipe& recipe, const Known& known, Problems& problems,
                 const std::vector<Rule>& rules = all_rules());

// The same for a recipe that has been read, in the world that it runs in. Throws Error(bad_recipe) with one line per
// broken rule: `<JSON pointer>: <what is wrong>; <rule>; did you mean …?`. Takes a fraction of a microsecond when all
// rules hold.
void require_rules(const Recipe& recipe, const World& world);

// What the author of a valid recipe may not have meant: a sentence each, which begins with the key.
std::vector<std::string> recipe_warnings(const Recipe& recipe);

// The data-parallel degree: the recipe's, else the one that the world implies, else none.
std::optional<std::int64_t> data_ranks(const Recipe& recipe, const Known& known);

// A check of what depends on the data-parallel degree, in the world of a recipe that says its ranks, while no other one
// is known. It is a rule of its own, because it also reads the keys that make these ranks into data-parallel ones.
template <Verdict (*check)(const Recipe&, const Known&)>
Verdict in_stated_world(const Recipe& recipe, const Known& known) {
  if (known.world != nullptr || recipe.parallel.data || !recipe.launch.ranks) return {};
  const World world{.ranks = *recipe.launch.ranks};
  return check(recipe, {.world = &world, .document = known.document});
}

// These keys, and those that such a rule reads besides.
std::vector<std::string_view> keys_of_stated_world(std::vector<std::string_view> keys);

// What a schedule of lengths begins with, and the multiple that its lengths are rounded to.
Verdict check_start(const LengthScheduleRecipe& schedule, const BatchRecipe& batch);
Verdict check_multiple(const LengthScheduleRecipe& schedule, const BatchRecipe& batch);

// Verdicts on a number, with the nearest valid one as hint. `rule` follows "must be a multiple of " and "must divide ".
Verdict must_be_multiple(std::int64_t value, std::int64_t divisor, std::string_view rule);
Verdict must_divide(std::int64_t value, std::int64_t whole, std::string_view rule);

// The verdict on names of classes: at least two, each once.
Verdict must_name_classes(const std::vector<std::string>& names);

// The first source of tokens in a file; null: there is none.
const DataSource* token_file_of(const DataRecipe& data);

// Another kind of samples, by its key in `data`.
struct OtherSamples {
  std::string_view key;
  bool is_given = false;
};
// The verdict on a key of `data` that says what samples are, beside which no conversations, hidden tokens, `others` nor
// anything that divides or orders tokens may stand: the first of them is named. `what` is what the key is for.
Verdict must_be_alone(const DataRecipe& data, std::string_view what, std::initializer_list<OtherSamples> others = {});

}  // namespace llmtrain
