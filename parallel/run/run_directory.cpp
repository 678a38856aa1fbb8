// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/run_directory.h"

#include <fcntl.h>
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/checkpoint_folder.h"
#include "core/checkpoint/file_in_place.h"
#include "core/recipe/keys/resume_rules.h"
#include "core/recipe/recipe_difference.h"
#include "core/recipe/recipe_file.h"
#include "core/recipe/recipe_io.h"
#include "parallel/comm/agreement.h"
#include "parallel/run/run_beginning.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

[[noreturn]] void refuse(const fs::path& folder, const std::string& why) {
  throw Error(ExitCode::bad_recipe, folder.string() + ": " + why);
}

[[noreturn]] void cannot_write(const fs::path& path, const std::string& what) {
  throw Error(ExitCode::cannot_write, path.string() + ": " + what + "; choose another --run-dir");
}

fs::path lock_file(const fs::path& folder) { return folder / ".lock"; }

// A recipe.json alone is a person's, which a run would replace by its own. Copies of runs may lack hidden files.
bool is_run(const fs::path& folder) {
  std::error_code error;
  return fs::exists(recipe_file(folder), error) &&
         (fs::exists(lock_file(folder), error) || fs::exists(folder / "metrics.jsonl", error));
}

void make_folder(const fs::path& folder) {
  std::error_code error;
  fs::create_directories(folder, error);
  if (error || !fs::is_directory(folder, error))
    cannot_write(folder, "cannot be created: " + (error ? error.message() : "it exists and is not a folder"));
}

// Whether the entry is what a process leaves that is killed before it has written recipe.json.
bool belongs_to_skeleton(const fs::directory_entry& entry) {
  const std::string name = entry.path().filename().string();
  if (name == "log" || name == "checkpoints") return entry.is_directory() && fs::is_empty(entry.path());
  if (name == "data-cache") return entry.is_directory();
  return name == ".lock" || name == "recipe.json.tmp";
}

void refuse_other_files(const fs::path& folder) {
  try {
    for (const fs::directory_entry& entry : fs::directory_iterator(folder))
      if (!belongs_to_skeleton(entry))
        refuse(folder, "contains " + entry.path().filename().string() +
                           " but no run; choose another --run-dir, a new or an empty folder");
  } catch (const fs::filesystem_error& failure) {
    cannot_write(folder, "cannot be listed: " + failure.code().message());
  }
}

Recipe read_kept_recipe(const fs::path& folder) {
  try {
    return parse_recipe(read_file(recipe_file(folder)), recipe_file(folder).string(), folder);
  } catch (const Error& error) {
    refuse(folder,
           std::string("contains a recipe.json that is not a run's; choose another --run-dir:\n") + error.what());
  }
}

void refuse_other_recipe(const fs::path& folder, const Recipe& recipe) {
  std::string lines;
  for (const KeyDifference& key : recipe_differences(read_kept_recipe(folder), recipe)) {
    const std::string_view reason = reason_against_change(key.pointer(), recipe);
    if (reason.empty()) continue;
    lines += "\n  " + key.pointer() + ": " + key.second.dump() + ", in the run " + key.first.dump() + "; ";
    lines += reason;
  }
  if (!lines.empty())
    refuse(
        folder,
        "contains the run of another recipe; choose another --run-dir, or set these keys to the run's values:" + lines);
}

enum class Contents { nothing, run };

// The folder's contents; refuses if this recipe may not run in it.
Contents check_contents(const fs::path& folder, const Recipe& recipe) {
  std::error_code error;
  if (!fs::exists(folder, error) && !error) return Contents::nothing;
  if (error || !fs::is_directory(folder, error)) cannot_write(folder, error ? error.message() : "is not a folder");
  if (!is_run(folder)) {
    refuse_other_files(folder);
    return Contents::nothing;
  }
  if (recipe.checkpoint.resume == "never")
    refuse(folder,
           "contains a run, and checkpoint.resume is \"never\"; choose another --run-dir, or set "
           "checkpoint.resume to \"auto\" to continue that run");
  refuse_other_recipe(folder, recipe);
  return Contents::run;
}

// The newest intact checkpoint; damaged ones that are skipped are logged and added to `damaged`.
std::optional<CheckpointReader> newest_whole(const fs::path& checkpoints, const VerifyCheckpoint& verify,
                                             std::vector<std::string>& damaged) {
  auto found = open_newest_checkpoint(checkpoints, damaged, verify);
  for (const std::string& reason : damaged) log().warn("{}; skipped", reason);
  return found;
}

std::optional<CheckpointReader> newest_checkpoint(const fs::path& checkpoints, const VerifyCheckpoint& verify) {
  std::vector<std::string> damaged;
  auto found = newest_whole(checkpoints, verify, damaged);
  if (!found && !damaged.empty())
    throw Error(ExitCode::bad_data, checkpoints.string() + ": contains no intact checkpoint (" + damaged.front() +
                                        "); remove the folder to train from the start, or name another checkpoint "
                                        "with --resume");
  return found;
}

CheckpointReader named_checkpoint(const fs::path& path, const VerifyCheckpoint& verify) {
  std::error_code error;
  if (!fs::exists(path, error)) {
    // Words that other programs take for the newest checkpoint.
    constexpr std::array<std::string_view, 5> newest_words = {"latest", "last", "newest", "true", "yes"};
    const bool means_newest = std::ranges::find(newest_words, path.filename().string()) != newest_words.end();
    throw Error(ExitCode::missing_input, path.string() + ": checkpoint.resume names it, but it does not exist" +
                                             (means_newest ? "; did you mean \"auto\"?" : ""));
  }
  if (fs::is_directory(path / "checkpoints", error)) {
    const auto newest = newest_checkpoint(path / "checkpoints", verify);
    if (!newest)
      throw Error(ExitCode::missing_input,
                  path.string() + ": checkpoint.resume names this run, but it contains no checkpoint");
    return *newest;
  }
  // A checkpoint that is named explicitly has no fallback: damage is an error.
  CheckpointReader named(path);
  verify(named);
  return named;
}

// Other settings of the same optimizer may differ.
void check_same_optimizer(const Recipe& recipe, const CheckpointReader& checkpoint) {
  const auto name_in = [](const Recipe& each) {
    return to_json(each).at("training").at("optimizer").at("name").dump();
  };
  const std::string own = name_in(recipe), other = name_in(recipe_of(checkpoint));
  if (own == other) return;
  throw Error(ExitCode::bad_recipe,
              fmt::format("/training/optimizer/name: is {} in the recipe and {} in {}, whose states are of that "
                          "optimizer; set it to {}, or start from the weights alone, with training.init_from",
                          own, other, checkpoint.folder().string(), other));
}

// The run's own newest checkpoint, else the one that `checkpoint.resume` names: repeating the same command continues
// the run instead of starting it again.
CheckpointReader checkpoint_to_start_from(const Recipe& recipe, const VerifyCheckpoint& verify) {
  const fs::path own = RunDirectory::checkpoints_of(recipe);
  std::vector<std::string> damaged;
  std::error_code error;
  if (const auto found = fs::exists(own, error) ? newest_whole(own, verify, damaged) : std::nullopt) {
    check_beginning(*found, recipe.checkpoint.resume);
    return *found;
  }
  CheckpointReader named = named_checkpoint(recipe.checkpoint.resume, verify);
  check_same_model(recipe.model, named);
  check_same_optimizer(recipe, named);
  return named;
}

// Locks the file .lock for the lifetime of the result. The file of a run is never removed: if processes created and
// removed it, two of them could hold locks on different files of the same name.
OpenFile lock(const fs::path& folder) {
  const fs::path file = lock_file(folder);
  const OpenFile held = open_file(file, O_RDWR | O_CREAT | O_NOFOLLOW);
  if (!held) cannot_write(file, std::string("cannot be created: ") + std::strerror(errno));
  const FileLocking locking = try_lock(*held, FileLock::exclusive);
  const int reason = errno;
  switch (locking) {
    case FileLocking::held:
      // Between the opening and the lock a start that failed has removed it.
      if (!is_in_place(file, *held)) refuse(folder, "was removed while the run started; start it again");
      break;
    case FileLocking::taken:
      refuse(folder, "another process is training in it; wait until it ends, or choose another --run-dir");
    case FileLocking::without:
      // No reason not to train there.
      log().warn("{}: cannot be locked ({}): make sure that no other process trains in this folder", file.string(),
                 std::strerror(reason));
  }
  return held;
}

}  // namespace

void RunDirectory::check(const Recipe& recipe, const VerifyCheckpoint& verify) {
  check_contents(recipe.log.directory, recipe);
  if (names_checkpoint(recipe.checkpoint.resume)) checkpoint_to_start_from(recipe, verify);
}

bool RunDirectory::has_checkpoint(const Recipe& recipe) {
  const std::string& resume = recipe.checkpoint.resume;
  if (resume == "never") return false;
  return names_checkpoint(resume) || !list_checkpoints(checkpoints_of(recipe)).empty();
}

RunFolderLock::RunFolderLock(const Recipe& recipe) : folder_(recipe.log.directory) {
  check_contents(folder_, recipe);  // before creating a lock file in a folder that is not a run's
  // Noted before anything is made, so that a start that fails removes what it has made and nothing else.
  for (const fs::path& each :
       {RunDirectory::data_cache_of(recipe), RunDirectory::checkpoints_of(recipe), lock_file(folder_)})
    if (!entry_exists(each)) created_.push_back(each);
  for (fs::path each = folder_; !each.empty() && !entry_exists(each); each = each.parent_path())
    created_.push_back(each);
  make_folder(folder_);
  held_ = lock(folder_);
}

RunFolderLock::~RunFolderLock() {
  if (!held_) return;
  std::error_code ignored;
  // Not remove_all(): a folder that has become another's meanwhile is not empty and stays.
  for (const fs::path& each : created_) fs::remove(each, ignored);
}

RunDirectory::RunDirectory(const Recipe& recipe, RunFolderLock&& lock) : recipe_(recipe), path_(recipe.log.directory) {
  // Check again: another process may have created a run before this one held the lock.
  if (check_contents(path_, recipe) == Contents::nothing) {
    // recipe.json marks the folder as a run: written atomically, so that a killed process leaves a run or a skeleton
    // that the next process accepts.
    write_file_atomically(recipe_file(path_), to_json(recipe).dump(2) + "\n");
  } else {
    former_ = read_kept_recipe(path_);
  }
  lock_ = std::exchange(lock.held_, nullptr);
  make_folder(log_file().parent_path());
  make_folder(checkpoints());
  clear_leftovers(checkpoints());
}

void RunDirectory::keep_recipe(std::int64_t steps_done) {
  if (!former_ || *former_ == recipe_) return;
  const fs::path of_the_past = path_ / fmt::format("recipe-until-step-{:08}.json", steps_done);
  std::error_code error;
  // What stopped before it had a checkpoint has left no step that counts: the recipe that reached this step stays.
  if (steps_done > 0 && !fs::exists(of_the_past, error))
    write_file_atomically(of_the_past, to_json(*former_).dump(2) + "\n");
  write_file_atomically(recipe_file(path_), to_json(recipe_).dump(2) + "\n");
}

void RunDirectory::require_in_place() const {
  if (is_in_place(lock_file(path_), *lock_)) return;
  throw Error(ExitCode::cannot_write, path_.string() +
                                          ": was removed or replaced while the run was writing in it; the run ends, "
                                          "because its checkpoints would be lost");
}

std::optional<fs::path> RunDirectory::newest_intact(const Recipe& recipe, const VerifyCheckpoint& verify) {
  std::vector<std::string> damaged;
  const auto newest = newest_whole(checkpoints_of(recipe), verify, damaged);
  return newest ? std::optional(newest->folder()) : std::nullopt;
}

std::string RunDirectory::began_from(const std::optional<CheckpointReader>& resumed) const {
  if (!resumed) return "";
  return is_own(*resumed) ? beginning_of(*resumed) : beginning_with(*resumed);
}

bool RunDirectory::is_own(const CheckpointReader& checkpoint) const {
  return checkpoint.folder().parent_path() == checkpoints();
}

std::optional<CheckpointReader> RunDirectory::checkpoint_to_resume(const VerifyCheckpoint& verify) const {
  const std::string& resume = recipe_.checkpoint.resume;
  if (resume == "never") return std::nullopt;
  if (!names_checkpoint(resume)) return newest_checkpoint(checkpoints(), verify);
  CheckpointReader found = checkpoint_to_start_from(recipe_, verify);
  std::error_code error;
  if (is_own(found) && !fs::equivalent(found.folder(), resume, error))
    log().info("this run has checkpoints of its own and continues from the newest, not from {}", resume);
  return found;
}

void check_same_recipe(Communicator& communicator, const Recipe& recipe) {
  // Compared as text with every default, so that any difference that could matter is found.
  const std::string own = to_json(recipe).dump();
  const std::string first = share_text(communicator, own);
  // 0 means no difference, since rank 0 cannot differ from itself. The maximum picks one rank for the message.
  std::int32_t differing = own == first ? 0 : communicator.rank();
  communicator.all_reduce(communicator.world(), Purpose::control, {&differing, 1, ElementType::int32}, Reduction::max)
      .wait();
  if (differing == 0) return;
  const nlohmann::json steps = nlohmann::json::diff(nlohmann::json::parse(first), nlohmann::json::parse(own));
  const std::string key = steps.empty() ? "" : steps.front().at("path").get<std::string>();  // a JSON pointer
  throw Error(ExitCode::bad_recipe, share_text(communicator, key, differing) + ": rank " + std::to_string(differing) +
                                        " has another value than the first rank; start all ranks with the same "
                                        "recipe and flags");
}

}  // namespace llmtrain
