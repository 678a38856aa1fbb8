// SPDX-License-Identifier: Apache-2.0
#include <algorithm>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/checkpoint_folder.h"
#include "core/checkpoint/json_file.h"

namespace llmtrain {
namespace {

// The step that `latest` names. None without the file, or when its content is invalid; `skipped` then has the reason.
std::optional<std::int64_t> latest_step(const std::filesystem::path& file, std::vector<std::string>& skipped) {
  std::error_code error;
  if (!std::filesystem::exists(std::filesystem::symlink_status(file, error))) return std::nullopt;
  try {
    std::string text = read_text_file(file);
    if (text.ends_with('\n')) text.pop_back();
    const auto step = checkpoint_step(text);
    if (!step) skipped.push_back(file.string() + ": does not contain the name of a checkpoint; it is ignored");
    return step;
    // `latest` is only a hint: without it the newest intact checkpoint is found by its name.
  } catch (const Error& refusal) {
    skipped.emplace_back(refusal.what());
    return std::nullopt;
  }
}

bool is_whole(const CheckpointFolder& folder, std::vector<std::string>& skipped, const VerifyCheckpoint& verify) {
  try {
    const CheckpointReader reader(folder.path);
    // A folder that was renamed by hand would resume at another step than its name promises.
    if (reader.state().step != folder.step)
      throw Error(ExitCode::bad_data, folder.path.string() + ": holds step " + std::to_string(reader.state().step) +
                                          ", which is not the step of its name");
    verify(reader);
    return true;
  } catch (const Error& error) {
    // Other errors, such as a lost rank, do not mean that the checkpoint is damaged.
    if (error.code() != ExitCode::bad_data && error.code() != ExitCode::missing_input) throw;
    skipped.emplace_back(error.what());
    return false;
  }
}

}  // namespace

std::optional<std::filesystem::path> find_checkpoint(const std::filesystem::path& checkpoints,
                                                     std::vector<std::string>& skipped,
                                                     const VerifyCheckpoint& verify) {
  std::vector<CheckpointFolder> folders = list_checkpoints(checkpoints);
  const auto latest = latest_step(checkpoints / "latest", skipped);
  const auto named = [&latest](const CheckpointFolder& folder) { return latest && folder.step == *latest; };
  if (latest && std::none_of(folders.begin(), folders.end(), named))
    skipped.push_back((checkpoints / "latest").string() + ": names " + checkpoint_name(*latest) +
                      ", which does not exist");
  // The one that `latest` names first, then the others from the newest to the oldest.
  std::stable_partition(folders.begin(), folders.end(), named);
  for (const CheckpointFolder& folder : folders)
    if (is_whole(folder, skipped, verify)) return folder.path;
  return std::nullopt;
}

}  // namespace llmtrain
