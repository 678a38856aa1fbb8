// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/page/curve.h"
#include "core/page/html.h"
#include "core/page/line_chart.h"
#include "parallel/run/report/metrics_rows.h"

namespace llmtrain {

// The curves of one run, in bounded memory however long it is.
struct RunCurves {
  std::string name;
  Curve loss, validation_loss, learning_rate, gradient_norm, tokens_per_second, mfu, memory, tensors;
  // The curves of one of several terms of the loss.
  struct Term {
    std::string name;
    Curve loss, validation_loss;
  };
  std::vector<Term> terms;
  std::vector<Term> sets;     // of validation data that have a name; without curves of training
  std::vector<Term> figures;  // of predictions in evaluations, without curves of training
  Curve expert_load, dropped_share, balance_loss, z_loss, router_entropy;  // of a model with experts
  Curve loss_scale;                                                        // with fp16
  Curve saturated_share;                                                   // with FP8 gradients
  // Where the run went on from a checkpoint: the newest of them, so that memory is bounded.
  std::deque<ChartMark> resumptions;

  // `x`: what the row is drawn over, such as its step.
  void add(const TrainingRow& row, double x);
  void add(const EvaluationRow& row, double x);

 private:
  static Term& named(std::vector<Term>& terms, const std::string& name);

  double last_x_ = 0;  // of the last training row
};

// What was planned, for a run that has a plan.
struct PlannedFigures {
  std::string profile;
  double step_seconds = 0;
  double tokens_per_second = 0;
  double process_bytes = 0;
};

// Charts of runs over each other; those that no run has values for are left out. Loss and validation loss
// share a chart where there is one run, and so do those of each term. `x_name`: "step" or "tokens".
Html run_charts(const std::vector<const RunCurves*>& runs, const std::string& x_name,
                const std::optional<PlannedFigures>& planned);

}  // namespace llmtrain
