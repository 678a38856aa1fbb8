// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/recipe_io.h"

#include <algorithm>
#include <system_error>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/printable.h"
#include "core/json/document.h"
#include "core/recipe/model_from/labelled_classes.h"
#include "core/recipe/model_from/model_from.h"
#include "core/recipe/recipe_file.h"
#include "core/recipe/recipe_reader.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain {
namespace {

constexpr std::size_t largest_recipe = 1 << 20;

[[noreturn]] void refuse(const std::string& lines) { throw Error(ExitCode::bad_recipe, lines); }

[[noreturn]] void refuse_size(const std::string& name) {
  refuse(name + ": is larger than 1 MiB; a recipe is a short JSON text, data belongs in files of its own");
}

bool is_index(std::string_view key) {
  return !key.empty() && key.size() < 7 && key.find_first_not_of("0123456789") == std::string_view::npos;
}

// Dots or slashes: both "batch.micro" and a JSON pointer are accepted.
std::vector<std::string> split_path(std::string_view path) {
  std::vector<std::string> keys(1);
  for (const char c : path.substr(path.starts_with('/') ? 1 : 0)) {
    if (c == '.' || c == '/') {
      keys.emplace_back();
    } else {
      keys.back() += c;
    }
  }
  return keys;
}

// The child of `parent` called `key`, created where it does not exist; null for an index outside of a list.
Json* child_of(Json& parent, const std::string& key) {
  if (!parent.is_array()) return &parent[key];
  const std::size_t index = is_index(key) ? std::stoul(key) : parent.size() + 1;
  if (index > parent.size()) return nullptr;
  if (index == parent.size()) parent.push_back(nullptr);
  return &parent[index];
}

// Puts `value` at the path `keys`. Whatever is created or replaced on the way counts as overridden.
std::string put(Document& document, const std::vector<std::string>& keys, Json value) {
  Json* place = &document.root;
  std::string pointer;
  std::string overridden;
  for (const auto& key : keys) {
    if (!place->is_structured()) *place = is_index(key) ? Json::array() : Json::object();
    const Json& parent = *place;
    const auto size = parent.size();
    place = child_of(*place, key);
    pointer = append_key(pointer, key);
    if (place == nullptr) return pointer + ": is not in the list; must be an index from 0 to " + std::to_string(size);
    // Everything below a created or replaced value came from the command line as well.
    const bool is_new = parent.size() > size;
    if (overridden.empty() && (is_new || !place->is_structured())) overridden = pointer;
  }
  *place = std::move(value);
  document.overridden.push_back(overridden.empty() ? pointer : overridden);
  return "";
}

// Applies one `--set pointer.path=JSON` to the document. Missing sections are created, an entry one past the end of a
// list is appended, and a plain value in the way is replaced. Returns what is wrong with the text, or nothing.
std::string apply_override(const std::string& text, Document& document) {
  // The parser below and the output assume UTF-8; the shell passes any bytes.
  if (!is_utf8(text)) return shown_text(text) + ": the text is not UTF-8; write it in UTF-8";
  const auto equals = text.find('=');
  const auto path = text.substr(0, equals);
  const auto keys = split_path(path);
  const bool is_path = !path.empty() && keys.size() <= deepest_nesting &&
                       std::none_of(keys.begin(), keys.end(), [](const std::string& key) { return key.empty(); });
  if (equals == std::string::npos || !is_path) {
    return shown_text(text) + ": is not a setting; must be pointer.path=JSON, as in batch.micro=4";
  }
  const auto written = text.substr(equals + 1);
  auto json = parse_json(written);
  // A text that is not JSON is a string.
  if (!json.error.empty()) return put(document, keys, written);
  if (!json.duplicates.empty()) {
    return shown_text(path) + json.duplicates.front() + ": is given twice; a key may appear only once";
  }
  return put(document, keys, std::move(json.value));
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

// A run's folder has the recipe in it.
void refuse_folder(const std::filesystem::path& path) {
  std::error_code ignored;
  if (!std::filesystem::is_directory(path, ignored)) return;
  const auto inside = recipe_file(path);
  refuse(path.string() + ": is a folder; give a recipe's file" +
         (std::filesystem::exists(inside, ignored) ? "; did you mean " + inside.string() + "?" : ""));
}

// What to say of a file that is not JSON, by the ending of its name; empty: nothing is known of it.
std::string other_language(const std::string& name) {
  const std::string extension = std::filesystem::path(name).extension().string();
  for (const std::string_view other : {".yaml", ".yml", ".toml", ".py"})
    if (extension == other) return "recipes are JSON; llmtrain new writes one to begin with";
  return "";
}

}  // namespace

Recipe parse_recipe(std::string_view text, const std::string& name, const std::filesystem::path& folder,
                    const std::vector<Override>& overrides) {
  if (text.size() > largest_recipe) refuse_size(name);
  auto json = parse_json(text);
  if (!json.error.empty()) {
    const std::string language = other_language(name);
    refuse(name + ": " + (language.empty() ? json.error : language));
  }
  Document document{std::move(json.value), {}};
  // Overrides change the document and not the resolved recipe, so that defaults follow from them too.
  const auto unusable = apply_overrides(overrides, document);
  fill_classifier(document);
  // Before reading, so that defaults and rules follow from the model that it names.
  const auto origin = fill_model_from(document, name, folder);
  Problems problems(document);
  for (const auto& pointer : json.duplicates) problems.add(pointer, "is given twice", "a key may appear only once");
  Recipe recipe = read_keys(document, folder, problems);
  if (origin) check_model_origin(recipe.model, *origin, problems);
  // After all keys are read: a rule looks at several, and only at those that are valid.
  check_rules(recipe, {.document = &document}, problems);
  auto lines = problems.report(name);
  if (!unusable.empty()) lines = unusable + (lines.empty() ? "" : "\n") + lines;
  if (!lines.empty()) refuse(lines);
  return recipe;
}

Recipe read_recipe(const std::filesystem::path& file, const std::vector<Override>& overrides) {
  refuse_folder(file);
  std::error_code unknown;
  const auto size = std::filesystem::file_size(file, unknown);
  // Before reading, so that a huge file given by mistake is not loaded.
  if (!unknown && size > largest_recipe) refuse_size(file.string());
  std::string text;
  try {
    text = read_file(file);
  } catch (const Error& error) {
    const bool is_missing = error.code() == ExitCode::missing_input;
    throw Error(
        error.code() == ExitCode::bad_data ? ExitCode::bad_recipe : error.code(),
        std::string(error.what()) + (is_missing ? "; llmtrain recipes lists those that come with the program" : ""));
  }
  return parse_recipe(text, file.string(), file.parent_path(), overrides);
}

}  // namespace llmtrain
