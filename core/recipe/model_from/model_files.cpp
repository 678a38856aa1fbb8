// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/model_from/model_files.h"

#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/json/json_file.h"
#include "core/recipe/checkpoint_source.h"

namespace llmtrain {

namespace fs = std::filesystem;

TokenizerRecipe tokenizer_in(const fs::path& folder) {
  for (const auto& [kind, name] : {std::pair(TokenizerKind::huggingface, "tokenizer.json"),
                                   std::pair(TokenizerKind::sentencepiece, "tokenizer.model")})
    if (path_exists(folder / name)) return {kind, (folder / name).string()};
  return {};
}

std::optional<fs::path> chat_template_in(const fs::path& folder) {
  if (const fs::path jinja = folder / "chat_template.jinja"; path_exists(jinja)) return jinja;
  const fs::path file = folder / "tokenizer_config.json";
  if (!path_exists(file)) return std::nullopt;
  const auto config = parse_json<nlohmann::json>(read_text_file(file), file.string());
  const bool has_one = config.is_object() && config.contains("chat_template") && !config["chat_template"].is_null();
  return has_one ? std::optional(file) : std::nullopt;
}

fs::path origin_of_model(const Recipe& recipe, const fs::path& checkpoint) {
  std::vector<fs::path> folders{checkpoint / kept_huggingface_folder};
  if (const auto& init_from = recipe.training.init_from)
    folders.emplace_back(
        huggingface_folder(*init_from).value_or((fs::path(*init_from) / kept_huggingface_folder).string()));
  for (const fs::path& folder : folders)
    if (path_exists(folder / "config.json")) return folder;
  return {};
}

}  // namespace llmtrain
