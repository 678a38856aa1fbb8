// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/rules/rules.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <iterator>
#include <set>
#include <sstream>
#include <string>
#include <utility>

#include "core/recipe/keys/key_table.h"
#include "core/recipe/recipe_reader.h"
#include "tests/core/recipe/bad_combinations.h"
#include "tests/core/recipe/good_recipe.h"

namespace llmtrain {
namespace {

using test::Combination;

std::vector<Combination> all_combinations() {
  std::vector<Combination> all;
  for (const auto part :
       {test::model_combinations,      test::document_combinations,   test::masking_combinations,
        test::label_combinations,      test::span_combinations,       test::pair_combinations,
        test::curriculum_combinations, test::attention_combinations,  test::latent_attention_combinations,
        test::hybrid_combinations,     test::encoder_combinations,    test::image_combinations,
        test::resnet_combinations,     test::window_combinations,     test::residual_combinations,
        test::prediction_combinations, test::router_combinations,     test::graph_combinations,
        test::optimizer_combinations,  test::training_combinations,   test::precision_combinations,
        test::batch_combinations,      test::course_combinations,     test::world_combinations,
        test::node_combinations,       test::layout_combinations,     test::expert_combinations,
        test::slice_combinations,      test::offload_combinations,    test::policy_combinations,
        test::pipeline_combinations,   test::update_combinations,     test::size_combinations,
        test::slurm_combinations,      test::slurm_start_combinations})
    std::ranges::copy(part(), std::back_inserter(all));
  return all;
}

// A document as read, before any rule is applied.
struct Read {
  explicit Read(Json json)
      : document{std::move(json), {}}, problems(document), recipe(read_keys(document, folder, problems)) {}
  Read(const Read&) = delete;
  Read& operator=(const Read&) = delete;

  const std::filesystem::path folder = "/recipes";
  const Document document;
  Problems problems;
  const Recipe recipe;
};

Json json_of(const Combination& combination) {
  auto json = test::small_recipe();
  json.merge_patch(Json::parse(combination.patch));
  return json;
}

// A combination as read, and what is known of where it would run.
struct Placed {
  explicit Placed(const Combination& combination)
      : read(json_of(combination)),
        devices_per_node(combination.devices_per_node),
        world(world_of(read.recipe, std::max<std::int64_t>(1, devices_per_node))) {}

  std::string report(const std::vector<Rule>& rules) const {
    const Known known{.world = devices_per_node == 0 ? nullptr : &world, .document = &read.document};
    Problems problems = read.problems;
    check_rules(read.recipe, known, problems, rules);
    return problems.report("");
  }

  const Read read;
  const std::int64_t devices_per_node;
  const World world;
};

TEST_CASE("Rules name existing keys", "[recipe]") {
  const auto keys = key_pointers();
  for (const Rule& rule : all_rules()) {
    CAPTURE(rule.refuses);
    auto named = rule.reads;
    named.push_back(rule.refuses);
    for (const auto pointer : named) {
      CAPTURE(pointer);
      CHECK(std::ranges::find(keys, pointer) != keys.end());
    }
  }
}

TEST_CASE("Every rule is tested: without it the errors of some combination change", "[recipe]") {
  std::deque<Placed> combinations;
  for (const Combination& combination : all_combinations()) combinations.emplace_back(combination);
  std::vector<std::string> whole;
  for (const Placed& placed : combinations) whole.push_back(placed.report(all_rules()));
  for (std::size_t left_out = 0; left_out < all_rules().size(); ++left_out) {
    const Rule& rule = all_rules()[left_out];
    auto rules = all_rules();
    rules.erase(rules.begin() + static_cast<std::ptrdiff_t>(left_out));
    bool changes = false;
    for (std::size_t i = 0; i < combinations.size() && !changes; ++i)
      changes = whole[i].find(rule.refuses) != std::string::npos && combinations[i].report(rules) != whole[i];
    CAPTURE(left_out, rule.refuses);
    CHECK(changes);
  }
}

// Other values of the same type; for keywords, all of them are tried.
std::vector<Json> other_values(const Json& value) {
  if (value.is_boolean()) return {!value.get<bool>()};
  if (value.is_number_integer()) return {value.get<std::int64_t>() + 1, 2 * value.get<std::int64_t>(), 1, 0};
  if (value.is_number()) return {value.get<double>() / 2 + 1e-3, 0};
  if (value.is_array()) return {Json::array(), {1, 2, 1}};
  return {1, 3, "llama", "rope", "O1", "bf16", "flash", "gpipe", "interleaved", "blocks", {4}};
}

// Whether the key is one of the rule's keys, or inside one or around one.
bool is_named(const Rule& rule, const std::string& key) {
  const auto touches = [&](std::string_view pointer) { return lies_in(pointer, key) || lies_in(key, pointer); };
  return touches(rule.refuses) || std::ranges::any_of(rule.reads, touches);
}

std::string text_of(const Verdict& verdict) {
  return verdict ? verdict->what + verdict->rule + verdict->hint : std::string();
}

// Changes of a verdict by a key that the rule does not name. `resolved` sets every key. Values that a key never takes
// are added to `refused`, and not read again.
std::vector<std::string> unnamed_reads(const Json& resolved, std::set<std::string>& refused) {
  const Read before(resolved);
  if (!before.problems.empty()) return {};
  const Known known{.document = &before.document};
  std::vector<std::string> expected;
  for (const Rule& rule : all_rules()) expected.push_back(text_of(rule.check(before.recipe, known)));
  std::vector<std::string> found;
  // One document for all of them: copies took a sixth of the time.
  Document changed{resolved, {}};
  const Json leaves = resolved.flatten();
  for (const auto& [pointer, value] : leaves.items()) {
    Json& place = changed.root[Json::json_pointer(pointer)];
    const Json whole = place;  // an empty list is null among the leaves
    for (const Json& other : other_values(value)) {
      const std::string setting = pointer + ": " + other.dump();
      if (refused.contains(setting)) continue;
      place = other;
      Problems problems(changed);
      const Recipe after = read_keys(changed, before.folder, problems);
      if (!problems.empty()) {
        refused.insert(setting);
        continue;
      }
      for (std::size_t i = 0; i < all_rules().size(); ++i) {
        const Rule& rule = all_rules()[i];
        if (!is_named(rule, pointer) && text_of(rule.check(after, known)) != expected[i])
          found.push_back("the rule of " + std::string(rule.refuses) + " reads " + setting);
      }
    }
    place = whole;
  }
  return found;
}

TEST_CASE("A rule reads no key that it does not name", "[recipe][exhaustive]") {
  const std::vector<std::string> none;
  std::set<std::string> refused;
  CHECK(unnamed_reads(to_json(test::parse(test::large_recipe())), refused) == none);
  for (const Combination& combination : all_combinations())
    CHECK(unnamed_reads(to_json(Read(json_of(combination)).recipe), refused) == none);
}

// Pairs of a key and one that determines its default.
std::set<std::pair<std::string, std::string>> deciders() {
  std::set<std::pair<std::string, std::string>> found;
  const auto given = json_of({R"({"model": {"hidden_size": 192, "moe": {"experts": 8}}})", "", {}});
  const Json before = to_json(Read(given).recipe).flatten();
  for (const auto& [pointer, value] : before.items()) {
    for (const Json& other : other_values(value)) {
      Json changed = given;
      changed[Json::json_pointer(pointer)] = other;
      const Read after(changed);
      if (!after.problems.empty()) continue;
      const Json resolved = to_json(after.recipe).flatten();
      for (const auto& [decided, now] : resolved.items())
        if (decided != pointer && before.contains(decided) && before[decided] != now) found.emplace(decided, pointer);
    }
  }
  return found;
}

TEST_CASE("A rule names the keys that determine the defaults of its keys", "[recipe]") {
  const auto pairs = deciders();
  CHECK(pairs.contains({"/model/ffn_hidden_size", "/model/architecture"}));
  for (const auto& [decided, decider] : pairs) {
    for (const Rule& rule : all_rules()) {
      CAPTURE(rule.refuses, decided, decider);
      CHECK((!is_named(rule, decided) || is_named(rule, decider)));
    }
  }
}

// The keys that are refused of a combination on a kind of device.
std::set<std::string> refused_keys(const Combination& combination, const char* device) {
  Json patch = Json::parse(combination.patch);
  patch["cluster"]["device"] = device;
  Combination on_device = combination;
  on_device.patch = patch.dump();
  std::set<std::string> keys;
  std::istringstream lines(Placed(on_device).report(all_rules()));
  for (std::string line; std::getline(lines, line);) keys.insert(line.substr(0, line.find(": ")));
  return keys;
}

TEST_CASE("What is not refused with a CPU is not refused with a GPU", "[recipe]") {
  std::size_t refused = 0;
  for (const Combination& combination : all_combinations()) {
    CAPTURE(combination.patch);
    const auto on_cpu = refused_keys(combination, "cpu");
    auto on_cuda = refused_keys(combination, "cuda");
    // A job that asks for GPUs must not ask for them twice.
    std::erase_if(on_cuda, [](const std::string& key) { return key.ends_with("/launch/slurm/sbatch"); });
    CHECK(std::ranges::includes(on_cpu, on_cuda));
    refused += on_cuda.size();
  }
  CHECK(refused > 100);
}

TEST_CASE("Consequences of a wrong number of ranks are not reported again", "[recipe]") {
  auto recipe = test::parse(json_of({R"({"model": {"moe": {"experts": 8}}, "batch": {"global": 6}, "parallel":
    {"tensor": 4, "pipeline": 4, "expert": 8, "zero_shard_ranks": 3}})",
                                     "",
                                     {}}));
  recipe.launch.ranks = 40;
  CHECK_THROWS_WITH(require_rules(recipe, world_of(recipe, 40)),
                    "/launch/ranks: 40 is not a multiple of 16; must be a multiple of parallel.tensor × pipeline × "
                    "context; did you mean 48?");
}

TEST_CASE("A plan reports every broken rule at once, one per line", "[recipe]") {
  auto recipe = test::parse(test::small_recipe());
  require_rules(recipe, {.ranks = 4, .devices_per_node = 4});
  recipe.model.dropout = 0.1;
  recipe.kernels.attention = AttentionKernel::flash;
  recipe.parallel.tensor = 3;
  recipe.batch.global = 7;
  CHECK_THROWS_WITH(require_rules(recipe, {.ranks = 6, .devices_per_node = 6}),
                    "/kernels/attention: \"flash\" has no dropout; with model.dropout 0.1 attention uses the math "
                    "path; did you mean \"auto\"?\n"
                    "/parallel/tensor: 3 does not divide 8; must divide model.heads; did you mean 2?\n"
                    "/batch/global: 7 is not a multiple of 4; must be a multiple of batch.micro × parallel.data; did "
                    "you mean 8?");
}

}  // namespace
}  // namespace llmtrain
