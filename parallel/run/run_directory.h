// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <memory>
#include <optional>
#include <string>

#include "core/checkpoint/checkpoint.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// The folder of one run: recipe.json, metrics.jsonl, log/, checkpoints/. Held by one process at a time.
class RunDirectory {
 public:
  // Throws what the constructor and checkpoint_to_resume() would, as far as it can be seen without writing: so that
  // neither a model is built for nothing, nor a run begun whose data turns out to be wrong.
  static void check(const Recipe& recipe, const VerifyCheckpoint& verify = verify_alone);

  // Makes the folder `recipe.log.directory` with recipe.json, or takes up the run that it holds (recipe.json stays as
  // it is). Refuses with Error(bad_recipe) and changes nothing when it holds other files, another recipe's run (each
  // key that differs is named, with both values; keys that cannot change the numbers may differ: $schema, description,
  // batch.micro, parallel, pipeline, memory, kernels, cluster, launch, checkpoint, log), a run although
  // `checkpoint.resume` is "never", or a run that another process is training. Throws Error(cannot_write) when it
  // cannot be made.
  explicit RunDirectory(const Recipe& recipe);
  ~RunDirectory();
  RunDirectory(const RunDirectory&) = delete;
  RunDirectory& operator=(const RunDirectory&) = delete;

  const std::filesystem::path& path() const { return path_; }
  std::filesystem::path metrics() const { return path_ / "metrics.jsonl"; }
  std::filesystem::path checkpoints() const { return path_ / "checkpoints"; }
  // The same for ranks that do not hold the folder.
  static std::filesystem::path checkpoints_of(const Recipe& recipe) {
    return std::filesystem::path(recipe.log.directory) / "checkpoints";
  }
  std::filesystem::path log_file() const { return path_ / "log" / "rank-00000.log"; }

  // The checkpoint to go on from, verified: the newest whole one of this folder, else what `checkpoint.resume` names (a
  // checkpoint, or a run directory whose newest whole one is meant); none at the start. Damaged ones that were passed
  // over are logged as warnings. Throws Error(bad_data) when there are some and all are damaged, Error(missing_input)
  // when what is named is not there, Error(bad_recipe) when it is of another model (check_same_model()).
  std::optional<std::filesystem::path> checkpoint_to_resume(const VerifyCheckpoint& verify = verify_alone) const;

 private:
  class Lock;

  Recipe recipe_;
  std::filesystem::path path_;
  std::unique_ptr<Lock> lock_;
};

}  // namespace llmtrain
