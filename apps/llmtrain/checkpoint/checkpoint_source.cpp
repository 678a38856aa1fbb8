// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/checkpoint/checkpoint_source.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <system_error>

#include "apps/llmtrain/checkpoint/huggingface_import.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/checkpoint/checkpoint.h"
#include "core/recipe/checkpoint_source.h"
#include "parallel/layout/executable.h"

namespace llmtrain::app {
namespace {

namespace fs = std::filesystem;

bool holds(const fs::path& folder, const char* name) {
  std::error_code failed;
  return fs::exists(folder / name, failed);
}

FoundCheckpoint newest(const fs::path& checkpoints) {
  std::vector<std::string> damaged;
  const auto reader = open_newest_checkpoint(checkpoints, damaged);
  if (reader) return {*reader, damaged};
  std::string reasons;
  for (const auto& reason : damaged) reasons += "\n" + reason;
  if (!reasons.empty())
    throw Error(ExitCode::bad_data, checkpoints.string() + ": contains no intact checkpoint" + reasons);
  throw Error(
      ExitCode::missing_input,
      checkpoints.string() + ": contains no checkpoint yet; the run must reach checkpoint.every steps or its end");
}

// For a recipe's file its log.directory; any other source unchanged.
std::string without_recipe(const std::string& source, const std::vector<Override>& overrides) {
  std::error_code failed;
  return fs::is_regular_file(source, failed) ? read_recipe(source, overrides).log.directory : source;
}

CheckpointSource imported_source(const fs::path& folder, const std::vector<Override>& overrides, bool may_lack_head) {
  const fs::path parent = fs::temp_directory_path();
  ScratchFolder::remove_abandoned(parent);
  const auto scratch = std::make_shared<const ScratchFolder>(parent);
  const fs::path checkpoint = scratch->path() / "checkpoint";
  import_huggingface(folder, checkpoint, may_lack_head);
  const CheckpointReader reader(checkpoint);
  return {without_training(recipe_of(reader, overrides)), reader, scratch};
}

}  // namespace

FoundCheckpoint find_source(const std::string& source) {
  std::error_code failed;
  const fs::path path(source);
  const auto status = fs::status(path, failed);
  if (!fs::exists(status)) {
    throw Error(ExitCode::missing_input, source + ": does not exist; give a run's directory or a checkpoint's folder");
  }
  if (!fs::is_directory(status)) {
    throw Error(ExitCode::bad_data, source + ": is a file; give a run's directory or a checkpoint's folder");
  }
  // From the most specific to the most general: a checkpoint, a run's directory, its folder of checkpoints.
  if (holds(path, "manifest.json")) return {CheckpointReader(path), {}};
  if (holds(path, "checkpoints")) return newest(path / "checkpoints");
  if (holds(path, "latest")) return newest(path);
  throw Error(ExitCode::missing_input,
              source +
                  ": contains no checkpoint (manifest.json, or a folder checkpoints); give a run's directory or a "
                  "checkpoint's folder");
}

CheckpointSource open_source(const std::string& source, const std::vector<Override>& overrides, bool may_lack_head) {
  if (const auto folder = huggingface_folder(source)) return imported_source(*folder, overrides, may_lack_head);
  const FoundCheckpoint found = find_source(without_recipe(source, overrides));
  warn_of_damaged(found.damaged);
  return {without_training(recipe_of(found.reader, overrides)), found.reader};
}

void require_tokenizer(const CheckpointSource& source, const std::vector<Override>& overrides) {
  constexpr std::int64_t bytes = 256;
  const Recipe& recipe = source.recipe;
  const auto says_tokenizer = [](std::string_view change) {
    const auto key = change.substr(change.starts_with('/') ? 1 : 0);
    return key.starts_with("data.tokenizer") || key.starts_with("data/tokenizer");
  };
  const auto holds_ids = [](const DataSource& data) { return data.path.ends_with(".bin"); };
  const auto ids = std::ranges::find_if(recipe.data.train, holds_ids);
  // A model that knows no more ids than there are bytes may well be one of bytes.
  if (recipe.data.tokenizer.kind != TokenizerKind::bytes || recipe.model.vocab_size <= bytes ||
      ids == recipe.data.train.end() || std::ranges::any_of(overrides, says_tokenizer))
    return;
  throw Error(ExitCode::bad_recipe,
              fmt::format("{}: /data/tokenizer: is \"bytes\", but the model was trained on ids, of {}; give their "
                          "tokenizer, as in --set 'data.tokenizer={{\"huggingface\": \"tokenizer.json\"}}', or "
                          "data.tokenizer=bytes if they are bytes",
                          source.checkpoint().string(), ids->path));
}

void warn_of_damaged(const std::vector<std::string>& damaged) {
  for (const std::string& reason : damaged) log().warn(reason);
}

}  // namespace llmtrain::app
