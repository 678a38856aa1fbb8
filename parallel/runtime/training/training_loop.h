// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/signals/stop_signals.h"
#include "parallel/comm/communicator.h"
#include "parallel/engine/model_state.h"
#include "parallel/engine/trainer.h"
#include "parallel/run/checkpoint_saver.h"
#include "parallel/run/time_limit.h"
#include "parallel/runtime/runtime_interface.h"
#include "parallel/runtime/training/first_rank.h"
#include "parallel/runtime/training/limit_watch.h"
#include "parallel/runtime/training/run_trace.h"

namespace llmtrain {

// One run from its start (or its checkpoint) to its last step, on one rank: steps, evaluations, checkpoints, and the
// stops that it is asked for, which all ranks hear at the same point. All ranks make the same calls; they block.
class TrainingLoop {
 public:
  // `first` is null on the ranks that are not the first. `memory` watches the calling thread. `began_from`, of the
  // first rank's: for the checkpoints. All other arguments outlive this.
  TrainingLoop(const RunRequest& request, Trainer& trainer, FirstRank* first, Logger& logger, ThreadMemory& memory,
               std::string began_from = "");

  // Returns done, or stopped once the checkpoint is saved. Throws Error like Trainer, MetricsLog and CheckpointSaver.
  ExitCode run();

  // Why it has stopped where nobody has asked it to: steps need more memory than the run's limit, and others are to
  // follow within it.
  const std::optional<MemoryExcess>& excess() const { return found_excess_; }

  bool has_trained() const { return !step_seconds_.empty(); }
  // The median over this process's steps without the first, which warms up caches and allocators.
  double typical_step_seconds() const;

 private:
  bool every(std::int64_t steps) const { return steps > 0 && trainer_.steps_done() % steps == 0; }
  bool has_diverged() const;
  void roll_back();
  std::string newest_checkpoint();
  bool train_step();
  bool is_asked_to_stop(double longest);
  Communicator& communicator() const { return trainer_.model().groups().communicator(); }
  int ranks() const { return communicator().size(); }
  void compare_replicas();
  bool evaluate();
  void save_regularly();
  void prepare_to_save();
  StateSlices slices();
  void save(CheckpointSaver::Kind kind = CheckpointSaver::Kind::regular);
  ExitCode stop();
  ExitCode say_stopped();
  bool is_asked_for_a_stop();
  void end();

  const Recipe& recipe_;
  const StopSignals& signals_;
  TimeLimit time_limit_;
  Trainer& trainer_;
  FirstRank* first_;
  Logger& logger_;
  std::string began_from_;
  LimitWatch memory_;
  std::optional<MemoryExcess> found_excess_;
  CheckpointSaver saver_;
  bool is_due_ = false;  // a regular checkpoint
  std::vector<double> step_seconds_;
  double longest_step_ = 0;
  bool is_out_of_time_ = false;  // which asks for a stop; on the first rank
  const std::optional<std::string>& trace_file_;
  std::optional<RunTrace> trace_;
};

}  // namespace llmtrain
