// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/recipe_io.h"

#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/document.h"
#include "core/json/problems.h"
#include "core/recipe/keys/key_table.h"
#include "core/recipe/overrides.h"
#include "core/recipe/recipe_reader.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

constexpr std::size_t largest_recipe = 1 << 20;

[[noreturn]] void refuse(const std::string& lines) { throw Error(ExitCode::bad_recipe, lines); }

[[noreturn]] void refuse_size(const std::string& name) {
  refuse(name + ": is larger than 1 MiB; a recipe is a short JSON text, data belongs in files of its own");
}

Document read_document(std::string_view text, const std::string& name, std::vector<std::string>& duplicates) {
  if (text.size() > largest_recipe) refuse_size(name);
  auto json = parse_json(text);
  if (!json.error.empty()) refuse(name + ": " + json.error);
  duplicates = std::move(json.duplicates);
  return {std::move(json.value), {}};
}

std::string apply_overrides(const std::vector<Override>& overrides, Document& document) {
  std::string lines;
  // The reader reports the root's type; overrides of it would only hide that.
  if (!document.root.is_object()) return lines;
  for (const auto& text : overrides) {
    const auto problem = apply_override(text, document);
    if (!problem.empty()) lines += (lines.empty() ? "--set: " : "\n--set: ") + problem;
  }
  return lines;
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& name, const std::filesystem::path& folder,
                    const std::vector<Override>& overrides) {
  std::vector<std::string> duplicates;
  Document document = read_document(text, name, duplicates);
  // Overrides change the document and not the resolved recipe, so that defaults follow from them too.
  const auto unusable = apply_overrides(overrides, document);
  Problems problems(document);
  for (const auto& pointer : duplicates) problems.add(pointer, "is given twice", "a key may appear only once");
  Recipe recipe;
  RecipeReader reader(document, folder, problems);
  describe_keys(reader, recipe);
  reader.finish();
  // After all keys are read: a rule looks at several, and only at those that are valid.
  check_rules(recipe, {.document = &document}, problems);
  auto lines = problems.report(name);
  if (!unusable.empty()) lines = unusable + (lines.empty() ? "" : "\n") + lines;
  if (!lines.empty()) refuse(lines);
  return recipe;
}

Recipe read_recipe(const std::filesystem::path& file, const std::vector<Override>& overrides) {
  std::error_code unknown;
  const auto size = std::filesystem::file_size(file, unknown);
  // Before reading, so that a huge file given by mistake is not loaded.
  if (!unknown && size > largest_recipe) refuse_size(file.string());
  std::string text;
  try {
    text = read_file(file);
  } catch (const Error& error) {
    throw Error(error.code() == ExitCode::bad_data ? ExitCode::bad_recipe : error.code(), error.what());
  }
  return parse_recipe(text, file.string(), file.parent_path(), overrides);
}

}  // namespace llmtrain
