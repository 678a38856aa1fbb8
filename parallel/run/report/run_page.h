// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <vector>

#include "core/page/html.h"
#include "core/recipe/recipe.h"
#include "parallel/run/report/metrics_rows.h"
#include "parallel/run/report/run_charts.h"
#include "parallel/run/report/run_figures.h"

namespace llmtrain {

enum class RunState { running, finished, stopped, ended_early };

// What a run's page shows, in bounded memory.
class RunProgress {
 public:
  void add(const TrainingRow& row);
  void add(const EvaluationRow& row);

  const RunCurves& curves() const { return curves_; }
  const std::optional<TrainingRow>& last() const { return last_; }
  const std::optional<LossFigure>& best() const { return best_; }
  const std::optional<LossFigure>& validation() const { return validation_; }
  // Those of the newest evaluation, where the loss has several.
  const std::vector<LossTermRow>& validation_terms() const { return validation_terms_; }
  const std::vector<LossTermRow>& validation_sets() const { return validation_sets_; }
  const std::vector<LossTermRow>& validation_figures() const { return validation_figures_; }
  const std::optional<LossFigure>& best_validation() const { return best_validation_; }
  // Medians over the last hundred rows; not a number without one.
  double step_seconds() const;
  double tokens_per_second() const;

 private:
  RunCurves curves_;
  std::optional<TrainingRow> last_;
  std::optional<LossFigure> best_, validation_, best_validation_;
  std::vector<LossTermRow> validation_terms_, validation_sets_, validation_figures_;
  std::deque<TrainingRow> recent_;
};

// A part of the page that somebody else draws.
struct PageSection {
  Html html;
  std::vector<MarkupLiteral> scripts{};
};

// The page of what ran: figures, charts over the steps, a further section, the recipe. While the run is going on, a
// browser loads it again every ten seconds. Smaller than 400 KB without the section, however long the run is.
std::string run_page(const Recipe& recipe, const RunProgress& progress, const std::optional<PlannedFigures>& planned,
                     RunState state, const PageSection& further = {});

}  // namespace llmtrain
