// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/flags.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string_view>
#include <system_error>

#include "apps/llmtrain/installation.h"
#include "core/recipe/hints.h"

namespace llmtrain::app {
namespace {

template <class Number>
std::optional<Number> number_in(const std::string& text) {
  Number value{};
  const auto [end, failure] = std::from_chars(text.data(), text.data() + text.size(), value);
  return failure == std::errc() && end == text.data() + text.size() ? std::optional(value) : std::nullopt;
}

// CLI11 would accept a number beyond 64 bits as the largest one, and "nan" as above any minimum.
template <class Number, class Rule>
CLI::Validator numbers(const std::string& rule_words, Rule rule) {
  const auto check = [rule_words, rule](const std::string& text) {
    const auto value = number_in<Number>(text);
    return value && rule(*value) ? std::string() : "\"" + text + "\" is not " + rule_words;
  };
  return {check, "", ""};
}

CLI::Option* as_recipe(CLI::Option* option) {
  const auto find = [](std::string& file) {
    file = recipe_file_meant(file);
    return std::string();
  };
  return option->type_name("")->transform(CLI::Validator(find, ""));
}

}  // namespace

CLI::Option* add_recipe_argument(CLI::App& command, std::string& file, const std::string& name,
                                 const std::string& help) {
  return as_recipe(command.add_option(name, file, help));
}

CLI::Option* add_recipe_arguments(CLI::App& command, std::vector<std::string>& files) {
  return as_recipe(command.add_option("RECIPE", files, "Recipe files, or bundled recipes' names"));
}

void add_source_argument(CLI::App& command, std::string& source) {
  command
      .add_option("SOURCE", source,
                  "A run's directory, a checkpoint's folder, a recipe, or hf: and a folder of transformers")
      ->required()
      ->type_name("");
}

void add_set_flag(CLI::App& command, std::vector<Override>& overrides) {
  command.add_option("--set", overrides, "Override a key of the recipe, as in batch.micro=4; repeatable")
      ->type_name("KEY=JSON")
      // One value per flag, or the recipe after it would be taken as another one.
      ->allow_extra_args(false);
}

std::vector<Override> RunFlags::overrides() const {
  std::vector<Override> overrides;
  if (directory) overrides.push_back(text_override("log.directory", *directory));
  if (ranks) overrides.push_back("launch.ranks=" + *ranks);
  return overrides;
}

void add_run_dir_flag(CLI::App& command, RunFlags& flags) {
  command.add_option("--run-dir", flags.directory, "Directory of the run's files (log.directory)")->type_name("DIR");
}

void add_ranks_flag(CLI::App& command, RunFlags& flags) {
  command.add_option("--ranks", flags.ranks, "Processes that train together (launch.ranks)")->type_name("N");
}

void add_inference_rank_flags(CLI::App& command, InferenceRanks& ranks) {
  command.add_option("--tensor", ranks.tensor, "Ranks that share each layer, as threads with a device each")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_positive());
  command.add_option("--pipeline", ranks.pipeline, "Ranks that share the layers")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_positive());
}

std::optional<WeightMemory> WeightMemoryFlags::memory() const {
  if (!bytes) return std::nullopt;
  const std::string place = folder.empty() ? std::filesystem::temp_directory_path().string() : folder;
  return WeightMemory{.bytes = static_cast<std::int64_t>(*bytes), .folder = place};
}

void add_weight_memory_flags(CLI::App& command, WeightMemoryFlags& flags) {
  CLI::Option* memory = command.add_option(
      "--weight-memory", flags.bytes,
      "Memory of weights, as in 4GiB: layers beyond it are read from a file in each pass; 0: as little as can be "
      "(default: all in memory)");
  memory->type_name("BYTES")->transform(CLI::AsSizeValue(false).description(""));
  command
      .add_option("--weight-folder", flags.folder,
                  "Folder of a local disk for that file, which has no name (default: that of temporary files)")
      ->type_name("FOLDER")
      ->check(text_not_empty())
      ->needs(memory);
}

CLI::Option* add_key_value_flag(CLI::App& command, KeyValueType& type) {
  static const std::map<std::string, KeyValueType> words{{"auto", KeyValueType::compute},
                                                         {"int8", KeyValueType::int8},
                                                         {"fp8", KeyValueType::fp8},
                                                         {"fp8_e4m3", KeyValueType::fp8}};
  return command
      .add_option(
          "--kv-cache-dtype", type,
          "Keys and values of texts in the type that the model computes in, or in int8 or FP8 (E4M3), which take "
          "a half to a quarter of the memory and round them")
      ->type_name("TYPE")
      ->default_str("auto")
      ->transform(CLI::CheckedTransformer(words).description("{auto,int8,fp8,fp8_e4m3}"));
}

Override texts_override(const std::string& pointer_path, const std::vector<std::string>& texts) {
  std::string list;
  // Each by itself, so that a text that is not UTF-8 makes one that the recipe's reader refuses.
  for (const std::string& text : texts) list += (list.empty() ? "" : ", ") + text_override("", text).substr(1);
  return pointer_path + "=[" + list + "]";
}

Override text_override(const std::string& pointer_path, const std::string& text) {
  try {
    return pointer_path + "=" + nlohmann::json(text).dump();
  } catch (const nlohmann::json::type_error&) {
    return pointer_path + "=" + text;  // not UTF-8; the recipe's reader refuses it
  }
}

CLI::Option* choose_from(CLI::Option* option, const std::vector<std::string>& words) {
  const auto check = [words](const std::string& text) {
    if (std::ranges::find(words, text) != words.end()) return std::string();
    const std::string choice =
        words.size() == 1 ? words.front()
                          : fmt::format("{} or {}", fmt::join(words.begin(), words.end() - 1, ", "), words.back());
    const std::string_view near = nearest_word(text, std::vector<std::string_view>(words.begin(), words.end()));
    return fmt::format("\"{}\" is unknown; must be {}{}", text, choice,
                       near.empty() ? "" : fmt::format("; did you mean {}?", near));
  };
  return option->type_name(fmt::format("{}", fmt::join(words, "|")))->check(CLI::Validator(check, ""));
}

CLI::Validator not_negative() {
  return numbers<double>("a number of at least 0", [](double value) { return std::isfinite(value) && value >= 0; });
}

CLI::Validator positive() {
  return numbers<double>("a number above 0", [](double value) { return std::isfinite(value) && value > 0; });
}

CLI::Validator share() {
  return numbers<double>("a number from 0 to 1", [](double value) { return value >= 0 && value <= 1; });
}

CLI::Validator whole_number() {
  return numbers<std::int64_t>("a whole number", [](std::int64_t) { return true; });
}

CLI::Validator whole_number_not_negative() {
  return numbers<std::int64_t>("a whole number of at least 0", [](std::int64_t value) { return value >= 0; });
}

CLI::Validator whole_number_positive() {
  // More ranks or texts than anyone has would overflow their product.
  constexpr std::int64_t most = 1'000'000;
  return numbers<std::int64_t>("a whole number from 1 to 1000000",
                               [](std::int64_t value) { return value >= 1 && value <= most; });
}

CLI::Validator text_not_empty() {
  return {[](const std::string& text) { return text.empty() ? "must not be empty" : std::string(); }, "", ""};
}

std::vector<std::string> words_of(std::span<const std::string_view> words) { return {words.begin(), words.end()}; }

}  // namespace llmtrain::app
