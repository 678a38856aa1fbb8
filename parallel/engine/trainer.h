// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/data/data_cache.h"
#include "core/data/samples/dataset.h"
#include "core/recipe/easiest_share.h"
#include "parallel/comm/communicator.h"
#include "parallel/device/step_arena.h"
#include "parallel/engine/data/batch_prefetch.h"
#include "parallel/engine/data/run_data.h"
#include "parallel/engine/inference.h"
#include "parallel/engine/local_model.h"
#include "parallel/engine/model_state.h"
#include "parallel/engine/runner.h"

namespace llmtrain {

// Whether a trainer begins with the weights that its recipe names, or a checkpoint will replace them.
enum class FirstWeights { load, leave };

// A model, its optimizer and its data: everything that training steps need, without a run's logs and checkpoints. All
// calls block. Throws Error if the recipe's files cannot be used.
class Trainer {
 public:
  // Opens the data and builds the model with its initial weights (the recipe's init_from, else its seed). Collective
  // over the communicator's world, which has as many ranks as the layout; all ranks make the same calls in the same
  // order. The communicator must outlive the trainer. What is made from the data is kept in `cache`, which all ranks
  // share; by default each rank makes its own in memory. With FirstWeights::leave neither init_from nor adapters_from
  // is read: they may be gone when a run goes on. `monitor` waits for what this, resume() and
  // load_first_weights() do. `make`: the blocks' modules.
  Trainer(std::shared_ptr<const Layout> layout, Communicator& communicator, const at::Device& device,
          const DataCache& cache = {}, FirstWeights first = FirstWeights::load, WorkMonitor monitor = {},
          const BlockFactory& make = make_block);
  Trainer(const Trainer&) = delete;
  Trainer& operator=(const Trainer&) = delete;

  std::int64_t steps_done() const { return steps_done_; }
  // Samples of the training data's order consumed by all ranks together.
  std::int64_t samples_consumed() const { return samples_consumed_; }
  // Their tokens that were trained on: fewer where data.curriculum cuts samples.
  std::int64_t tokens_trained() const { return tokens_trained_; }
  const SkippedUpdates& skipped() const { return skipped_; }
  // The parameters of which init_from has no weights, so that theirs are random: of a head for other classes.
  const std::vector<std::string>& begun_anew() const { return anew_; }
  StepResult step(StopRequest stop = StopRequest::none);

  // Where the experts that this rank's tokens choose are recorded in the steps that follow; null: nowhere. Outlives
  // these steps.
  void record_choices(TokenChoices* choices) { choices_ = choices; }

  // The loss over the validation data, of named sets over the one that the run is judged by, though all are evaluated:
  // training.evaluate_batches global batches of each, or all of it if that is 0. The recipe must name validation data.
  double evaluate();
  // The same with its terms; nothing where the watch has stopped it. The evaluation is due then, until it is done or
  // the next step.
  std::optional<Evaluation> evaluate(const EvaluationWatch& watch) { return evaluate(watch, {}); }
  // The same with figures of the judged set that another part measures, after all losses: of the first `most` samples
  // at most. Nothing where its watch has stopped it.
  using FurtherFigures = std::function<std::optional<std::vector<Figure>>(const Dataset& judged, std::int64_t most,
                                                                          const EvaluationWatch& watch)>;
  std::optional<Evaluation> evaluate(const EvaluationWatch& watch, const FurtherFigures& further);
  // What the run's evaluations have come to, also those before a checkpoint that the trainer has resumed from.
  const std::optional<EvaluationHistory>& evaluations() const { return evaluations_; }
  // Whether training.early_stopping ends the run here. The same on all ranks.
  bool stops_early() const;
  // Whether the evaluation after the last step was stopped, also before a checkpoint that the trainer has resumed from.
  bool evaluation_is_due() const { return evaluation_is_due_; }

  // What its checkpoints hold of the model.
  SavedParameters saved_parameters() const { return base_ ? SavedParameters::trained : SavedParameters::all; }
  // What a checkpoint records besides its tensors, which model_state.h provides.
  CheckpointState state() const;
  // Continues from a checkpoint of the same model as if training had never stopped.
  void resume(const CheckpointReader& checkpoint);
  // Instead of resume(): loads the first weights, unless the constructor has. Collective like it.
  void load_first_weights();
  // Returns to a checkpoint of this run, and goes on with the data that follow those consumed so far. The updates that
  // were skipped in a row count no longer.
  void roll_back(const CheckpointReader& checkpoint);

  const Recipe& recipe() const { return model_.recipe(); }
  const Dataset& train_data() const { return data_.train; }
  const RunData& data() const { return data_; }
  // The validation data by which the run is judged; null: there are none.
  const Dataset* validation_data() const {
    return data_.validation.empty() ? nullptr : &data_.validation[data_.judged].data;
  }
  // The step that was done last, and the percent of the samples, the easiest, from which it read.
  StepShape last_shape() const { return runner_.shapes().at(steps_done_ - 1); }
  std::int64_t last_percent() const { return easiest_percent(recipe().data.curriculum, steps_done_ - 1); }
  // Where the steps' tensors lie; null without memory.arena, and on GPUs.
  const StepArena* arena() const { return arena_.get(); }
  LocalModel& model() { return model_; }
  Runner& runner() { return runner_; }

 private:
  // What step number `step`, from 0, reads when earlier ones have consumed so many samples.
  BatchPlace place_of(std::int64_t step, std::int64_t consumed) const;
  bool cuts_samples() const { return recipe().data.curriculum.sequence_length.has_value(); }
  // Finds base_ where checkpoints leave it out. Collective.
  void name_base();
  // Where the casts of a step to FP8 are recorded; null: nowhere.
  void measure_with(Fp8Statistics* statistics, std::span<PassInput> micros);

  WorkMonitor monitor_;
  RunData data_;
  LocalModel model_;
  Runner runner_;
  BatchPrefetch batches_;
  std::unique_ptr<StepArena> arena_;
  std::int64_t steps_done_ = 0, samples_consumed_ = 0, tokens_trained_ = 0;
  SkippedUpdates skipped_;
  TokenChoices* choices_ = nullptr;
  bool evaluation_is_due_ = false;
  std::optional<EvaluationHistory> evaluations_;
  bool has_first_weights_ = false;
  std::vector<std::string> anew_;
  std::optional<BaseModel> base_;  // of adapters, which checkpoints leave out
};

}  // namespace llmtrain
