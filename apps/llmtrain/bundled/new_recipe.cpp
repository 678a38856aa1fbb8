// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/bundled/new_recipe.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <numeric>
#include <system_error>

#include "apps/llmtrain/data/epochs.h"
#include "apps/llmtrain/installation.h"
#include "apps/llmtrain/machine/machine_profile.h"
#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/plan/search.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/page/text_layout.h"
#include "core/recipe/enum_words.h"
#include "core/recipe/keys/key_table.h"
#include "core/recipe/recipe_io.h"
#include "parallel/layout/executable.h"
#include "parallel/plan/search/search.h"

namespace llmtrain::app {
namespace {

using NewJson = nlohmann::ordered_json;

struct Nodes {
  std::int64_t nodes = 1;
  std::int64_t devices_per_node = 1;
};

Nodes nodes_of(std::int64_t devices, const ClusterProfile& profile) {
  const std::int64_t per_node = profile.node.devices;
  // A processor's ranks share it, as many as there are.
  if (devices <= per_node || profile.device.kind == DeviceKind::cpu) return {1, devices};
  if (devices % per_node == 0) return {devices / per_node, per_node};
  throw Error(ExitCode::bad_recipe, fmt::format("--devices: {} do not fill nodes of {}; did you mean {}?", devices,
                                                per_node, (devices / per_node + 1) * per_node));
}

// As a path of the new recipe, whose paths are relative to its folder.
std::string data_path(const std::string& data, const std::filesystem::path& output) {
  std::error_code failed;
  const bool is_pattern = data.find_first_of("*?[") != std::string::npos;
  if (!is_pattern && !std::filesystem::exists(data, failed))
    throw Error(ExitCode::missing_input, "--data: " + data + ": no such file or folder");
  const std::filesystem::path given(data);
  if (given.is_absolute()) return data;
  const auto folder = std::filesystem::absolute(output).parent_path();
  return std::filesystem::absolute(given).lexically_normal().lexically_proximate(folder.lexically_normal()).string();
}

std::int64_t batch_of(const Recipe& model, std::int64_t devices) {
  // Eight sequences per device keep it busy; more than the model's authors took would need another learning rate.
  const std::int64_t wanted = std::min(model.batch.global, 8 * devices);
  return std::max<std::int64_t>(1, wanted / devices) * devices;
}

NewJson cluster_of(const NewRecipe& wanted, const ClusterProfile& profile, const Nodes& nodes) {
  NewJson cluster = {{"profile", wanted.machine}, {"nodes", nodes.nodes}};
  // A processor has as many as there are ranks, if it is left to it.
  if (profile.device.kind != DeviceKind::cpu || nodes.devices_per_node > 1)
    cluster["devices_per_node"] = nodes.devices_per_node;
  if (wanted.machine != "auto") cluster["device"] = word_of(profile.device.kind);
  return cluster;
}

// Everything but the layout.
NewJson without_layout(const NewRecipe& wanted, const ClusterProfile& profile, std::int64_t devices) {
  const Recipe model = read_recipe(wanted.model);
  const auto source = NewJson::parse(read_file(wanted.model));
  NewJson recipe;
  // Editors then show what each key means: a JSON file can hold no comments.
  const auto recipes = bundled_recipes();
  const auto described_by = recipes.parent_path() / "recipe.schema.json";
  if (!recipes.empty() && std::filesystem::exists(described_by)) recipe["$schema"] = described_by.string();
  recipe["name"] = wanted.output.stem().string();
  recipe["description"] = fmt::format("The model of {} on {} × {}.", model.name, devices, profile.name);
  // Where it comes from is relative to its own file, and what was read there is the model itself.
  const bool is_elsewhere = source["model"].contains("from");
  recipe["model"] = is_elsewhere ? NewJson(to_json(model)["model"]) : source["model"];
  recipe["data"] = {{"tokenizer", "bytes"}, {"train", NewJson::array()}};
  if (wanted.data) recipe["data"]["train"].push_back({{"path", data_path(*wanted.data, wanted.output)}});
  recipe["batch"] = {
      {"global", batch_of(model, devices)}, {"micro", 1}, {"sequence_length", model.model.max_sequence_length}};
  recipe["training"] = {{"steps", wanted.steps}, {"learning_rate", {{"peak", 3e-4}, {"minimum", 3e-5}}}};
  if (const auto& init_from = model.training.init_from; is_elsewhere && init_from)
    recipe["training"]["init_from"] = *init_from;
  const bool has_bf16 = profile.device.kind != DeviceKind::cpu && profile.device.peak_flops.bf16 > 0;
  recipe["precision"] = {{"compute", has_bf16 ? "bf16" : "fp32"}};
  // In the order of the recipe's reference; the search fills these.
  for (const char* section : {"parallel", "pipeline", "memory"}) recipe[section] = NewJson::object();
  // The search chooses among all numbers of expert ranks, but has to start from a legal one.
  if (model.model.moe) recipe["parallel"]["expert"] = std::gcd(model.parallel.expert, devices);
  recipe["cluster"] = cluster_of(wanted, profile, nodes_of(devices, profile));
  return recipe;
}

Recipe parsed(const NewJson& recipe, const NewRecipe& wanted) {
  return parse_recipe(recipe.dump(), wanted.output.string(), std::filesystem::absolute(wanted.output).parent_path());
}

// What follows from the run's length, which epochs say for one batch alone.
void set_length(NewJson& recipe, const NewRecipe& wanted) {
  std::int64_t steps = wanted.steps;
  if (wanted.epochs) {
    NewJson training = {{"epochs", *wanted.epochs}};
    training.update(recipe["training"]);
    training.erase("steps");
    recipe["training"] = std::move(training);
    steps = steps_of_epochs(wanted.output.string(), parsed(recipe, wanted));
  }
  recipe["training"]["learning_rate"]["warmup_steps"] = steps / 50;
  recipe["checkpoint"] = {{"every", std::max<std::int64_t>(1, steps / 10)}};
}

Recipe fastest(const Recipe& recipe, const std::string& machine, const ClusterProfile& profile, std::int64_t devices) {
  const SearchResult found = search_layouts(recipe, profile);
  if (found.front.empty())
    throw Error(
        ExitCode::bad_recipe,
        fmt::format("--devices: none of {} layouts fits {} × {}; {}", found.layouts, devices, profile.name,
                    machine == "auto" ? "name the machine that is to train it, as in --machine h100-sxm-80gb"
                                      : "use more devices or a smaller model, or train adapters alone (model.lora)"));
  std::vector<SearchCandidate> executable;
  for (const SearchCandidate& candidate : found.front)
    if (not_executable(candidate.recipe).empty()) executable.push_back(candidate);
  if (const auto best = best_of(executable, profile.accuracy)) return executable[*best].recipe;
  const Recipe& planned_only = found.front[*found.best].recipe;
  for (const std::string& reason : not_executable(planned_only))
    log().warn("this recipe can be planned but not run by this version: {}", reason);
  return planned_only;
}

std::string help_at(const NewJson& schema, const std::string& path) {
  const NewJson* place = &schema;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, end - begin);
    if (place->contains("items")) place = &(*place)["items"];
    if (place->contains("properties") && (*place)["properties"].contains(key)) place = &(*place)["properties"][key];
    begin = end + 1;
  }
  return place->value("description", "");
}

// What the model is, its own recipe says.
bool is_explained(const std::string& section) {
  return section != "$schema" && section != "name" && section != "description" && section != "model";
}

// A section with its keys' descriptions in a comment before them, and the sections in it alike.
NewJson commented_section(const NewJson& section, const std::string& path, const NewJson& schema) {
  std::string comment;
  NewJson keys = NewJson::object();
  for (const auto& [key, value] : section.items()) {
    const std::string inner = path + "." + key;
    if (!value.is_object()) comment += fmt::format("{}{}: {}", comment.empty() ? "" : " ", key, help_at(schema, inner));
    keys[key] = value.is_object() ? commented_section(value, inner, schema) : value;
  }
  NewJson result;
  if (!comment.empty()) result[std::string(section_comment)] = comment;
  result.update(keys);
  return result;
}

void explain(std::string& text, const NewJson& value, const std::string& path, const NewJson& schema,
             std::size_t width) {
  if (value.is_object()) {
    for (const auto& [key, child] : value.items())
      explain(text, child, path.empty() ? key : path + "." + key, schema, width);
  } else {
    constexpr std::size_t help_column = 45;
    text += described(path + " = " + value.dump(), help_at(schema, path), help_column, width);
  }
}

}  // namespace

NewJson new_recipe(const NewRecipe& wanted) {
  Recipe machine;
  machine.cluster.profile = wanted.machine;
  measure_machine(machine);
  const ClusterProfile profile = profile_of(machine);
  const std::int64_t devices = wanted.devices.value_or(profile.node.devices);
  NewJson recipe = without_layout(wanted, profile, devices);
  const Recipe best = fastest(parsed(recipe, wanted), wanted.machine, profile, devices);
  NewJson layout = layout_keys(best);
  // The devices and the other degrees imply it, and a run on other devices then needs no second change.
  layout["parallel"]["data"] = "auto";
  for (const char* section : {"parallel", "pipeline", "batch", "memory"})
    for (const auto& [key, value] : layout[section].items()) recipe[section][key] = value;
  set_length(recipe, wanted);
  return recipe;
}

std::string explained(const NewJson& recipe, std::size_t width) {
  std::string text;
  const NewJson schema = recipe_schema();
  for (const auto& [key, value] : recipe.items())
    if (is_explained(key)) explain(text, value, key, schema, width);
  return text;
}

NewJson commented(const NewJson& recipe) {
  NewJson result;
  const NewJson schema = recipe_schema();
  for (const auto& [key, value] : recipe.items())
    result[key] = is_explained(key) ? commented_section(value, key, schema) : value;
  return result;
}

}  // namespace llmtrain::app
