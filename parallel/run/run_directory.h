// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

#include "core/base/file.h"
#include "core/checkpoint/checkpoint.h"
#include "core/recipe/recipe.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

// The folder `recipe.log.directory`, created where it is missing and locked, before it contains the run: ranks may then
// read and write what belongs in it. What was created is removed with this object, as far as it is empty, unless
// RunDirectory has taken it over: a start that fails leaves no folder behind.
class RunFolderLock {
 public:
  // Throws Error(bad_recipe) and changes nothing if the folder contains what RunDirectory refuses, or if another
  // process is training in it; Error(cannot_write) if it cannot be created.
  explicit RunFolderLock(const Recipe& recipe);
  ~RunFolderLock();
  RunFolderLock(const RunFolderLock&) = delete;
  RunFolderLock& operator=(const RunFolderLock&) = delete;

 private:
  friend class RunDirectory;

  std::filesystem::path folder_;
  std::vector<std::filesystem::path> created_;  // or to be created in it; the innermost first
  OpenFile held_;                               // .lock; none once RunDirectory has it
};

// The folder of one run: recipe.json, metrics.jsonl, report.html, log/, checkpoints/. Locked by one process at a time.
class RunDirectory {
 public:
  // Throws what the constructor and checkpoint_to_resume() would throw, as far as that can be determined without
  // writing. Call it before building a model, so that errors come early and leave no folder behind.
  static void check(const Recipe& recipe, const VerifyCheckpoint& verify = verify_alone);

  // Whether checkpoint_to_resume() will find a checkpoint, if not all are damaged. Throws Error(bad_data) where the
  // folder cannot be listed.
  static bool has_checkpoint(const Recipe& recipe);

  // Creates the folder `recipe.log.directory` with recipe.json, or continues the run in it (recipe.json stays as it is
  // until keep_recipe()). Throws Error(bad_recipe) and changes nothing if the folder contains other files, another
  // recipe's run (the message names each key that differs and may not by core/recipe/keys/resume_rules.h, with both
  // values and the reason), a run although `checkpoint.resume` is "never", or a run that another process is training.
  // Throws Error(cannot_write) if it cannot be created.
  explicit RunDirectory(const Recipe& recipe) : RunDirectory(recipe, RunFolderLock(recipe)) {}
  // The same in a folder that is locked already; takes the lock over.
  RunDirectory(const Recipe& recipe, RunFolderLock&& lock);
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  // The same for ranks that have not opened the folder.
  static std::filesystem::path checkpoints_of(const Recipe& recipe) {
    return std::filesystem::path(recipe.log.directory) / "checkpoints";
  }
  // Where the run keeps what it makes from its data; ranks may fill it while the folder is locked, before it is opened.
  static std::filesystem::path data_cache_of(const Recipe& recipe) {
    return std::filesystem::path(recipe.log.directory) / "data-cache";
  }
  // The newest intact checkpoint of the recipe's run, also for ranks that have not opened the folder; none where there
  // is none. Skipped damaged ones are logged as warnings.
  static std::optional<std::filesystem::path> newest_intact(const Recipe& recipe, const VerifyCheckpoint& verify);
  std::filesystem::path log_file() const { return path_ / "log" / "rank-00000.log"; }

  // The recipe with which the folder's run was trained so far; none for a new run.
  const std::optional<Recipe>& former_recipe() const { return former_; }
  // Makes recipe.json the recipe of the steps that follow, and keeps the former one, where it differs, as
  // recipe-until-step-00000100.json. Throws Error(cannot_write).
  void keep_recipe(std::int64_t steps_done);

  // Throws Error(cannot_write) if the folder was removed or replaced since: what is written would be lost.
  void require_in_place() const;

  // The verified checkpoint to continue from: the newest intact one of this folder, else the one that
  // `checkpoint.resume` names (a checkpoint, or a run directory, meaning its newest intact one); none for a new run.
  // Skipped damaged checkpoints are logged as warnings. Throws Error(bad_data) if there are checkpoints but all are
  // damaged, Error(missing_input) if the named one does not exist, Error(bad_recipe) if it is of another model
  // (check_same_model()), or if the folder has checkpoints and what is named would be passed over (check_beginning()).
  std::optional<CheckpointReader> checkpoint_to_resume(const VerifyCheckpoint& verify = verify_alone) const;
  // The checkpoint of another run with which the run began that goes on from `resumed`, which checkpoint_to_resume()
  // has found; empty: none.
  std::string began_from(const std::optional<CheckpointReader>& resumed) const;

 private:
  bool is_own(const CheckpointReader& checkpoint) const;

  Recipe recipe_;
  std::optional<Recipe> former_;
  std::filesystem::path path_;
  OpenFile lock_;  // .lock
};

// Throws Error(bad_recipe) that names a rank whose recipe differs from the first rank's, and the first key that
// differs. Collective: all ranks call it and throw the same error; blocks.
void check_same_recipe(Communicator& communicator, const Recipe& recipe);

}  // namespace llmtrain
