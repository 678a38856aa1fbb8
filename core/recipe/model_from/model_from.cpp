// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/model_from.h"

#include <string_view>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/json/json_file.h"
#include "core/recipe/checkpoint_source.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "core/recipe/model_from/image_processor.h"
#include "core/recipe/model_from/model_files.h"
#include "core/recipe/recipe_difference.h"
#include "core/recipe/recipe_file.h"
#include "core/recipe/recipe_io.h"
#include "core/recipe/recipe_reader.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

constexpr const char* pointer = "/model/from";

// The source as an absolute path, with its prefix. None where it is absent or unusable, which the reader reports.
std::optional<std::string> source_of(const Document& document, const fs::path& folder) {
  if (!document.holds(pointer)) return std::nullopt;
  const Json& value = document.root.at(Json::json_pointer(pointer));
  if (!value.is_string()) return std::nullopt;
  Problems ignored(document);
  const WrittenValue::Source source{document, folder, ignored};
  return WrittenValue(value, pointer, "", source).text({TextKind::checkpoint_source});
}

bool is_file(const fs::path& file) {
  std::error_code unknown;
  return fs::is_regular_file(file, unknown);
}

// The recipe in a file that a run wrote.
Recipe recipe_of_run(const fs::path& file, const Json& recipe) {
  try {
    return parse_recipe(recipe.dump(), file.string(), file.parent_path());
  } catch (const Error& error) {
    throw Error(ExitCode::bad_data,
                std::string(error.what()) + "\n" + file.string() + ": was written by an incompatible version");
  }
}

// Adds the keys of `from` that `section` lacks, also in objects that both have.
void add_missing(Json& section, const Json& from) {
  for (const auto& [key, value] : from.items()) {
    if (!section.contains(key)) {
      section[key] = value;
    } else if (section[key].is_object() && value.is_object()) {
      add_missing(section[key], value);
    }
  }
}

// A scaling's keys depend on each other, so that those of two are not mixed.
void keep_scaling(const Json& section, Json& from, const ModelRecipe& origin) {
  const auto given = section.find("rope_scaling");
  if (given == section.end()) return;
  from.erase("rope_scaling");
  if (!given->is_object()) return;
  from["rope_scaling"]["original_max_sequence_length"] =
      origin.rope_scaling ? origin.rope_scaling->original_max_sequence_length : origin.max_sequence_length;
}

// The chat template of the model itself, as data.fine_tuning.template says it.
std::optional<Json> chat_template_of(const ModelOrigin& origin) {
  auto found = origin.chat_template;
  if (!found && origin.folder)
    if (const auto file = chat_template_in(*origin.folder)) found = {ChatTemplate::file, file->string()};
  if (!found) return std::nullopt;
  Recipe described;
  described.data.fine_tuning = {.chat_template = *found};
  return to_json(described).at("data").at("fine_tuning").at("template");
}

// How images are seen, where the recipe has some and does not say so. Which part is seen is said by two keys together.
void fill_images(Json& images, const ModelOrigin& origin) {
  auto view = origin.images;
  if (!view && origin.folder) view = image_processor_in(*origin.folder);
  if (!view || !images.is_object()) return;
  Recipe described;
  described.data.images = *view;
  Json keys = to_json(described).at("data").at("images");
  for (const char* own : {"classes", "augmentation"}) keys.erase(own);
  if (images.contains("fit") || images.contains("shorter_side"))
    for (const char* of_part : {"fit", "shorter_side"}) keys.erase(of_part);
  add_missing(images, keys);
}

// What `data` does not say, and the model's origin knows.
void fill_data(Json& data, const ModelOrigin& origin) {
  if (data.is_null()) data = Json::object();
  if (!data.is_object()) return;
  if (!data.contains("tokenizer") && origin.tokenizer.kind != TokenizerKind::bytes) {
    Recipe described;
    described.data.tokenizer = origin.tokenizer;
    data["tokenizer"] = to_json(described).at("data").at("tokenizer");
  }
  if (data.contains("images")) fill_images(data["images"], origin);
  const auto fine_tuning = data.find("fine_tuning");
  if (fine_tuning == data.end() || !fine_tuning->is_object() ||
      (fine_tuning->contains("template") && fine_tuning->at("template") != "auto"))
    return;
  if (const auto own = chat_template_of(origin)) (*fine_tuning)["template"] = *own;
}

std::string window_problem(std::int64_t window, const std::string& source) {
  return "beyond the window of " + std::to_string(window) + " tokens in " + source +
         ", within which longer sequences attend";
}

}  // namespace

ModelOrigin read_model_origin(const std::string& source) {
  if (const auto huggingface = huggingface_folder(source)) {
    const fs::path folder = *huggingface;
    return {model_recipe_from_huggingface(folder), (folder / "config.json").string(), huggingface_window(folder),
            tokenizer_in(folder), folder};
  }
  const fs::path folder = source;
  for (const fs::path& path : {folder / "manifest.json", recipe_file(folder)}) {
    if (!is_file(path)) continue;
    const auto json = parse_json<Json>(read_text_file(path), path.string());
    const bool is_manifest = json.is_object() && json.contains("recipe");
    const Recipe recipe = recipe_of_run(path, is_manifest ? json.at("recipe") : json);
    ModelOrigin origin{recipe.model, path.string(), huggingface_window(folder / kept_huggingface_folder),
                       recipe.data.tokenizer};
    if (path_exists(folder / kept_huggingface_folder)) origin.folder = folder / kept_huggingface_folder;
    if (recipe.data.fine_tuning) origin.chat_template = recipe.data.fine_tuning->chat_template;
    origin.images = recipe.data.images;
    return origin;
  }
  throw Error(ExitCode::missing_input,
              source +
                  ": has neither manifest.json nor recipe.json; give a checkpoint's folder, a run's directory, or " +
                  "\"hf:\" and a Hugging Face model's folder");
}

std::optional<ModelOrigin> fill_model_from(Document& document, const std::string& name, const fs::path& folder) {
  const auto source = source_of(document, folder);
  if (!source) return std::nullopt;
  ModelOrigin origin;
  try {
    origin = read_model_origin(*source);
  } catch (const Error& error) {
    throw Error(error.code(), name + ": " + pointer + ": " + error.what());
  }
  Recipe described;
  described.model = origin.model;
  Json& root = document.root;
  Json from = to_json(described).at("model");
  if (root["model"].is_object()) keep_scaling(root["model"], from, origin.model);
  add_missing(root["model"], from);
  try {
    fill_data(root["data"], origin);
  } catch (const Error& error) {
    throw Error(error.code(), name + ": " + pointer + ": " + error.what());
  }
  // null asks for random weights. What is not an object is reported by the reader.
  Json& training = root["training"];
  if (training.is_null()) training = Json::object();
  if (training.is_object() && !training.contains("init_from")) training["init_from"] = *source;
  return origin;
}

void check_model_origin(const ModelRecipe& model, const ModelOrigin& origin, Problems& problems) {
  for (const KeyDifference& difference : origin_differences(model, origin.model).of_weights) {
    if (!problems.is_clean(difference.pointer())) continue;
    const std::string theirs = shown_value(difference.second);
    // A vocabulary that is larger is none of these differences.
    const std::string allowed = difference.key == "model.vocab_size" ? " or more," : "";
    problems.add(difference.pointer(), "is " + shown_value(difference.first) + ", but " + theirs + " in " + origin.file,
                 "must be " + theirs + allowed + " or left out, as model.from gives it");
  }
  const std::string pointer_of_length = "/model/max_sequence_length";
  if (origin.window && !model.sliding_window && model.max_sequence_length > *origin.window &&
      problems.is_clean(pointer_of_length))
    problems.add(pointer_of_length,
                 std::to_string(model.max_sequence_length) + " is " + window_problem(*origin.window, origin.file),
                 "set model.sliding_window, or shorten it");
}

void check_window(const ModelRecipe& model, const std::optional<std::int64_t>& window, const std::string& source) {
  if (!window || model.sliding_window || model.max_sequence_length <= *window) return;
  throw Error(ExitCode::bad_recipe, "/model/max_sequence_length: " + std::to_string(model.max_sequence_length) +
                                        " is " + window_problem(*window, source) +
                                        "; set /model/sliding_window, or shorten it");
}

}  // namespace llmtrain
