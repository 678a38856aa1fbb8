// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/checkpoint/huggingface_import.h"

#include <string>
#include <system_error>

#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/runtime.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/json/json_text.h"
#include "core/recipe/checkpoint_source.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "core/recipe/model_from/model_files.h"
#include "core/recipe/recipe_io.h"
#include "core/tokenizer/model_marks.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain::app {
namespace {

namespace fs = std::filesystem;

// What kept_huggingface_folder copies beside the weights.
constexpr const char* kept_files[] = {"config.json",       "generation_config.json",  "tokenizer.json",
                                      "tokenizer.model",   "tokenizer_config.json",   "special_tokens_map.json",
                                      "added_tokens.json", "chat_template.jinja",     "vocab.json",
                                      "merges.txt",        "preprocessor_config.json"};

// The folder's tokenizer. Bytes where it has none that is supported, and the reason.
TokenizerRecipe usable_tokenizer_in(const fs::path& folder, std::int64_t vocab_size, std::string& reason) {
  const TokenizerRecipe found = tokenizer_in(folder);
  try {
    if (found.kind == TokenizerKind::bytes)
      throw Error(ExitCode::missing_input, folder.string() + ": has neither tokenizer.json nor tokenizer.model");
    open_tokenizer(found, vocab_size);
    return found;
  } catch (const Error& error) {
    reason = error.what();
    return {};
  }
}

// A recipe needs a batch and steps, which no folder of transformers knows. `reason` as usable_tokenizer_in()'s.
Recipe imported_recipe(const fs::path& folder, std::string& reason) {
  Recipe described;
  described.model = model_recipe_from_huggingface(folder);
  const Json text = {{"name", "imported"},
                     {"model", to_json(described).at("model")},
                     {"batch", {{"global", 1}, {"micro", 1}}},
                     {"training", {{"steps", 1}}}};
  Recipe recipe = parse_recipe(text.dump(), (folder / "config.json").string(), folder);
  recipe.data.tokenizer = usable_tokenizer_in(folder, recipe.model.vocab_size, reason);
  if (recipe.data.tokenizer.kind != TokenizerKind::bytes)
    // Relative to the checkpoint, which may be moved.
    recipe.data.tokenizer.file = (kept_huggingface_folder / fs::path(recipe.data.tokenizer.file).filename()).string();
  return recipe;
}

void keep_files(const fs::path& from, const fs::path& checkpoint) {
  const fs::path kept = checkpoint / kept_huggingface_folder;
  std::error_code failed;
  fs::create_directory(kept, failed);
  if (failed) throw Error(ExitCode::cannot_write, kept.string() + ": cannot be created: " + failed.message());
  for (const char* name : kept_files)
    if (path_exists(from / name)) write_file_atomically(kept / name, read_file(from / name));
  copy_named_templates(from, kept);
}

}  // namespace

void import_huggingface(const fs::path& folder, const fs::path& destination, bool may_lack_head) {
  std::string no_tokenizer;
  const Recipe recipe = imported_recipe(folder, no_tokenizer);
  require_executable(recipe, folder.string());
  load_runtime().import_model({recipe, folder.string(), destination.string(), may_lack_head,
                               [&](const fs::path& checkpoint) { keep_files(folder, checkpoint); }});
  if (!no_tokenizer.empty()) log().warn("the checkpoint has no tokenizer: {}", no_tokenizer);
}

}  // namespace llmtrain::app
