// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "core/page/html.h"
#include "parallel/device/measurement.h"
#include "parallel/engine/trainer.h"
#include "parallel/run/console.h"
#include "parallel/run/metrics_log.h"
#include "parallel/run/report/live_report.h"
#include "parallel/run/run_directory.h"
#include "parallel/run/stragglers.h"
#include "parallel/run/utilization.h"
#include "parallel/runtime/exchange_file.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// Why updates may have been skipped, such as "the gradient norm was not finite".
std::string reason_of_skips(const SpikeRecipe& spikes);

// What the first rank alone does in a run: it writes metrics and the page, shows progress, and looks for the file that
// requests a stop. The arguments outlive it. Every function that writes throws Error(cannot_write).
class FirstRank {
 public:
  // For the steps that follow those that the trainer has done. `memory`: of this rank's tensors.
  FirstRank(const RunRequest& request, const RunDirectory& directory, Trainer& trainer, const ThreadMemory& memory);

  // After each step, with what it returned and took.
  void show(const StepResult& result, double seconds);
  void begin_evaluation();
  void show_evaluated(double share) { progress_.show_work(share); }
  void show_evaluation(const Evaluation& evaluation);
  // After an evaluation that began this process and was stopped by a time limit: its seconds, by its pace.
  void warn_of_long_evaluation(double seconds);
  // Before a checkpoint.
  void keep_exchanges() const { exchanges_.write(); }
  void warn(const std::string& text) { progress_.warn(text); }
  // After the trainer has returned to a checkpoint, because `what` happened.
  void show_rollback(const std::string& what);
  // The last step's timeline, for the page: measured_step_section().
  void show_last_step(const Html& section);
  // At the run's end: `why` it stops, such as "on request"; or after its last step.
  void show_stop(const std::string& why);
  // Before the rest of the run, which another FirstRank shows.
  void show_pause(const std::string& why);
  void finish();

  bool is_asked_to_stop() const { return stop_file_.exists(); }

 private:
  TrainingRow make_row(const StepResult& result, double seconds);
  void watch(const StepResult& result, const TrainingRow& row);

  const Recipe& recipe_;
  const RunDirectory& directory_;
  Trainer& trainer_;
  const ThreadMemory& memory_;
  Utilization utilization_;
  std::optional<MetricsLog> metrics_;
  Progress progress_;
  LiveReport report_;
  StragglerWatch stragglers_;
  double planned_tensor_bytes_;  // 0: unknown, or said already
  StopFile stop_file_;
  ExchangeFile exchanges_;
  std::optional<std::int64_t> resumed_after_;  // until a row has said so
};

}  // namespace llmtrain
