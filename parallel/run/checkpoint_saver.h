// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <future>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "core/base/error.h"
#include "core/checkpoint/checkpoint.h"
#include "core/recipe/recipe.h"
#include "parallel/comm/communicator.h"
#include "parallel/run/call_time.h"

namespace llmtrain {

// Writes checkpoints according to the recipe's `checkpoint` section: with `async` the state is copied in memory and
// written by a separate thread while training continues, else write() returns when it is on disk. At most one write is
// in progress, with one copy in memory, which all writes use: the next write waits for it, and says so once where that
// takes long. So a run that is killed loses at most the steps of the interval and those during one write, which are no
// more than an interval. Used by one thread.
//
// Each rank writes its slices at the same time as the others; once all have, the first rank commits the checkpoint. All
// ranks make the same calls, which block; a failure on one rank is thrown on all. Ranks communicate only within these
// calls, never on the writing threads.
//
// With on_failure "continue", Error(cannot_write) of a regular write is a warning: earlier checkpoints stay, and
// this one is missing.
class CheckpointSaver {
 public:
  using Warn = std::function<void(const std::string&)>;
  // The communicator must outlive this. `warn` is called on the first rank, within the calls below; of a write that
  // waits for the one before for `long_wait` seconds, once. All ranks see the folder: check_shared_folder().
  CheckpointSaver(std::filesystem::path checkpoints, const CheckpointRecipe& recipe, Communicator& communicator,
                  Warn warn = log_warning, double long_wait = 1);
  // Waits for this rank's writing; a single rank also completes the checkpoint. A pending failure is logged.
  ~CheckpointSaver();
  CheckpointSaver(const CheckpointSaver&) = delete;
  CheckpointSaver& operator=(const CheckpointSaver&) = delete;

  // Makes the memory for copies of slices of these sizes, if the recipe asks for copies, so that the first write() does
  // not wait while the system provides it.
  void prepare(std::span<const TensorSlice> slices);
  void prepare(std::size_t bytes);
  enum class Kind { regular, last };
  // The same memory, for slices that somebody else copies there: of so many bytes, for the write after step
  // `next_step`. Waits for the write before, which reads it.
  std::byte* room_for(std::int64_t next_step, std::size_t bytes);
  // `slices` are this rank's part. Their memory may change once this returns, unless `memory` owns it: then it is kept
  // instead of being copied. Nor is that of the last checkpoint, after which nothing trains: it may change after
  // finish(). `fill` is called before the slices are read, by the thread that writes them. Throws what
  // require_finite_weights() and write_checkpoint() throw, also for the previous write; then this one is not started.
  void write(const CheckpointState& state, std::span<const TensorSlice> slices,
             std::shared_ptr<const void> memory = nullptr, Kind kind = Kind::regular,
             std::function<void()> fill = nullptr);
  // Call between steps: commits a write once all ranks have written their files, without waiting for it. Throws what
  // the write threw.
  void progress();
  // Seconds of the longest write so far, from write() to its end on the disk; none before the first has ended.
  std::optional<double> longest_save() const { return longest_save_; }
  // Blocks until everything is on disk. Throws what the write threw, once.
  void finish();

 private:
  struct Save;

  bool is_first() const { return communicator_.rank() == 0; }
  bool is_alone() const { return communicator_.size() == 1; }
  void finish_earlier(std::int64_t next_step);
  void start(std::function<void()> work);
  void fill(const Save& save) const;
  void make_staging(std::size_t bytes);
  void report(const Save& save, double seconds) const;
  void go_on();
  void commit(std::unique_ptr<Save> save);
  std::optional<Error> failure_of(const Save& save, const std::optional<Error>& own) const;
  bool is_tolerable(const Save& save, const Error& failure) const;
  std::string next_save(std::int64_t step) const;
  static void log_warning(const std::string& text);

  std::filesystem::path checkpoints_;
  CheckpointRecipe recipe_;
  Communicator& communicator_;
  Warn warn_;
  std::string writers_;  // part of the name of the temporary folder
  std::unique_ptr<std::byte[]> staging_;
  std::size_t staging_bytes_ = 0;
  std::unique_ptr<Save> save_;  // the write in progress
  std::optional<double> longest_save_;
  double long_wait_;
  bool has_warned_of_waiting_ = false;
  CallTime stall_;                          // of training, for the write in progress
  std::future<std::optional<Error>> work_;  // this rank's current work for it
};

// Checks that all ranks see what the first one writes to its folder of checkpoints, which each rank names by its own
// path. Creates the folder and removes what killed writers have left there. Collective; blocks. Throws
// Error(cannot_write), the same on all ranks, that names a rank which does not see it within `patience` (network file
// systems show new files late), its host and a remedy.
void check_shared_folder(Communicator& communicator, const std::filesystem::path& checkpoints,
                         std::chrono::milliseconds patience = std::chrono::seconds(40));

}  // namespace llmtrain
