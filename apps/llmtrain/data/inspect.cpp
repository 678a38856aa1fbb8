// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>

#include <filesystem>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/llmtrain/data/data.h"
#include "apps/llmtrain/data/inspect_images.h"
#include "apps/llmtrain/data/inspect_recipe.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/token_files/describe_data.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain::app {
namespace {

constexpr std::int64_t default_tokens = 32;

struct InspectOptions {
  std::string file;
  std::string tokenizer;
  std::optional<std::int64_t> tokens;
  std::optional<std::string> key;
  std::string on_bad_line = "stop";
  bool json = false;
  InspectRecipeOptions recipe;
};

std::string as_json(const InspectOptions& options, const DataDescription& data) {
  nlohmann::ordered_json json = {{"file", options.file}, {"format", data.format}, {"bytes", data.file_bytes}};
  const auto number = [&](const char* key, const std::optional<std::int64_t>& value) {
    if (value) json[key] = *value;
  };
  number("documents", data.documents);
  number("tokens", data.tokens);
  number("largest_id", data.largest_id);
  if (data.tokens) json["first_tokens"] = data.first_tokens;
  if (data.first_text) json["first_text"] = *data.first_text;
  if (data.bad_lines.policy() == OnBadLine::skip) json["bad_lines"] = data.bad_lines.json();
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string as_text(const InspectOptions& options, const DataDescription& data) {
  std::string text = fmt::format("file        {}\nformat      {}\nsize        {}\n", options.file, data.format,
                                 format_bytes(data.file_bytes));
  if (data.documents) text += fmt::format("documents   {}\n", *data.documents);
  if (data.tokens) text += fmt::format("tokens      {}\n", *data.tokens);
  if (data.largest_id)
    text += fmt::format("largest id  {}, for model.vocab_size {} or more\n", *data.largest_id, *data.largest_id + 1);
  if (!data.first_tokens.empty()) text += fmt::format("begins with {}\n", fmt::join(data.first_tokens, " "));
  for (const std::string& sentence : data.bad_lines.sentences()) text += "skipped     " + sentence + "\n";
  if (data.first_text) text += "text        " + printable(*data.first_text) + "\n";
  return text;
}

enum class Inspected { file, recipe, images };

Inspected kind_of(const std::string& file) {
  std::error_code unknown;
  if (std::filesystem::is_directory(file, unknown)) return Inspected::images;
  return is_recipe(file) ? Inspected::recipe : Inspected::file;
}

// A flag of another kind would otherwise be ignored.
void check_flags(const InspectOptions& options, Inspected kind) {
  const auto refuse_flag = [&](const char* flag, bool is_given, const std::string& what) {
    if (is_given) throw Error(ExitCode::bad_recipe, fmt::format("{}: is for {} alone; leave it out", flag, what));
  };
  const bool is_file = kind == Inspected::file, of_recipe = kind == Inspected::recipe;
  const auto files = [&](const char* but) { return of_recipe ? fmt::format("data files, as {},", but) : "data files"; };
  refuse_flag("--tokenizer", !is_file && !options.tokenizer.empty(), files("a recipe names its own"));
  refuse_flag("--key", !is_file && options.key, files("recipes have a key for it"));
  refuse_flag("--tokens", !is_file && options.tokens, "data files");
  refuse_flag("--on-bad-line", !is_file && options.on_bad_line != "stop", files("recipes have a key for it"));
  refuse_flag("--samples", !of_recipe && options.recipe.samples, "recipes");
  refuse_flag("--validation", !of_recipe && options.recipe.is_validation, "recipes");
  refuse_flag("--set", !of_recipe && !options.recipe.overrides.empty(), "recipes");
}

int inspect_data(const InspectOptions& options) {
  const Inspected kind = kind_of(options.file);
  check_flags(options, kind);
  if (kind == Inspected::images) {
    inspect_images(options.file, options.json);
    return 0;
  }
  if (kind == Inspected::recipe) {
    InspectRecipeOptions recipe = options.recipe;
    recipe.file = options.file;
    recipe.json = options.json;
    inspect_recipe(recipe);
    return 0;
  }
  const auto tokenizer = options.tokenizer.empty() ? nullptr : open_tokenizer(named_tokenizer(options.tokenizer));
  const DataDescription data = describe_data(options.file, tokenizer.get(), options.tokens.value_or(default_tokens),
                                             policy_of(options.on_bad_line), options.key.value_or(document_key));
  options.json ? write_json(as_json(options, data)) : write_result(as_text(options, data));
  return 0;
}

}  // namespace

void add_inspect_data(CLI::App& parent, Action& action) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = parent.add_subcommand("inspect", "Shows what a data file holds, or what a run reads of its data");
  command->add_option("FILE", options->file, "A token file (.bin), text or JSON Lines, a folder of images, or a recipe")
      ->required()
      ->type_name("");
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "Decodes tokens, and counts those of text: bytes, a tokenizer.json, or a .model file")
      ->type_name("FILE");
  command->add_option("--tokens", options->tokens, "How many tokens of a data file to show (32)")
      ->type_name("N")
      ->check(whole_number_not_negative());
  command->add_option("--key", options->key, "Key of the documents in a data file's rows (text)")->type_name("KEY");
  add_on_bad_line(*command, options->on_bad_line);
  command->add_option("--samples", options->recipe.samples, "How many samples of a recipe's data to show (3)")
      ->type_name("N")
      ->check(whole_number_not_negative());
  command->add_flag("--validation", options->recipe.is_validation, "Of a recipe's data.validation, not data.train");
  add_set_flag(*command, options->recipe.overrides);
  command->add_flag("--json", options->json, "Print JSON");
  command->footer(
      "Examples:\n  llmtrain data inspect books.bin --tokenizer tokenizer.json\n  llmtrain data inspect photos\n  "
      "llmtrain data inspect "
      "recipe.json");
  command->callback([options, &action] { action = [options] { return inspect_data(*options); }; });
}

}  // namespace llmtrain::app
