// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/trainer.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/fault_point.h"
#include "core/base/log.h"
#include "core/checkpoint/checkpoint.h"
#include "core/huggingface/adapters.h"
#include "core/huggingface/huggingface.h"
#include "core/recipe/checkpoint_source.h"
#include "core/recipe/recipe_io.h"
#include "core/recipe/step_shapes.h"
#include "parallel/comm/agreement.h"
#include "parallel/device/profiler_range.h"
#include "parallel/engine/batch_loader.h"
#include "parallel/engine/inference.h"
#include "parallel/engine/model_state.h"

namespace llmtrain {
namespace {

// The newest intact checkpoint of a run, the same on all ranks. Collective.
std::filesystem::path newest_checkpoint_of(const std::filesystem::path& run, Communicator& communicator) {
  std::string folder, reason = "it has no intact checkpoint";
  SharedVerification(communicator).run([&](const VerifyCheckpoint& verify) {
    std::vector<std::string> skipped;
    try {
      if (const auto found = find_checkpoint(run / "checkpoints", skipped, verify)) folder = found->string();
    } catch (const Error& error) {
      // Thrown below on all ranks.
      reason = error.what();
    }
    for (const std::string& each : skipped) log().warn(each);
  });
  folder = share_text(communicator, folder);
  reason = share_text(communicator, reason);
  if (folder.empty())
    throw Error(ExitCode::missing_input, run.string() + ": training.init_from names this run, but " + reason);
  return folder;
}

void load_first_weights(LocalModel& model, const std::string& source) {
  if (const auto folder = huggingface_folder(source))
    return load_weights(model, HuggingfaceWeights(*folder, model.graph()));
  Communicator& communicator = model.groups().communicator();
  std::error_code unknown;
  const bool is_run = std::filesystem::is_directory(std::filesystem::path(source) / "checkpoints", unknown);
  const CheckpointReader checkpoint(is_run ? newest_checkpoint_of(source, communicator)
                                           : std::filesystem::path(source));
  check_same_model(model.recipe().model, checkpoint);
  // All ranks hash a share of the files: one rank alone would take as many times as long. Those of a run have been
  // verified by the search.
  if (!is_run) verify_together(communicator, checkpoint);
  load_weights(model, checkpoint);
}

// Of the rank's first parameter, in the memory that it trains; none while it is gathered for use.
std::span<std::byte> first_weights(LocalModel& model) {
  const ParameterUnit& unit = *model.units().front();
  if (model.gathers_for_use() || unit.store->has_scaled_weights()) return {};
  const at::Tensor weight = unit.store->weight(unit.store->ranges().front().parameter);
  return {static_cast<std::byte*>(weight.data_ptr()), weight.nbytes()};
}

// What all ranks have measured, in rank order. Collective; blocks.
std::vector<Fp8Representation> over_ranks(const Fp8Statistics& own, const RankGroups& groups) {
  using Values = std::array<double, sizeof(Fp8Statistics::Kinds) / sizeof(double)>;
  const auto values = std::bit_cast<Values>(own.of_kinds());
  const std::vector<double> all = groups.exchange(values);
  std::vector<Fp8Representation> kinds(Fp8Statistics::kinds);
  for (std::size_t rank = 0; rank < all.size() / values.size(); ++rank) {
    Values theirs;
    std::copy_n(all.begin() + static_cast<std::ptrdiff_t>(rank * theirs.size()), theirs.size(), theirs.begin());
    const auto found = std::bit_cast<Fp8Statistics::Kinds>(theirs);
    for (std::size_t kind = 0; kind < kinds.size(); ++kind) add(kinds[kind], found[kind]);
  }
  return kinds;
}

}  // namespace

Trainer::Trainer(std::shared_ptr<const Layout> layout, Communicator& communicator, const at::Device& device,
                 const DataCache& cache)
    : data_(open_run_data(layout->recipe(), cache)), model_(std::move(layout), communicator, device), runner_(model_) {
  if (const auto& source = recipe().training.init_from) load_first_weights(model_, *source);
  if (const auto& folder = recipe().training.adapters_from)
    load_weights(model_, NamedWeightSource(load_peft(*folder, model_.graph())));
}

StepResult Trainer::step(StopRequest stop) {
  Communicator& communicator = model_.groups().communicator();
  const ProfilerRange range("step " + std::to_string(steps_done_ + 1));
  communicator.log().set_activity(steps_done_ + 1, "reading its batch");
  fault_point(FaultPlace::data, communicator.rank(), steps_done_ + 1);
  const StepShape& shape = runner_.shapes().at(steps_done_);
  const DataRank rank = data_rank(model_.groups(), shape.sequence_length);
  const std::int64_t percent = easiest_percent(recipe().data.curriculum, steps_done_);
  // The order of samples is a function of the seed, the step and the count of consumed ones, so a resumed run continues
  // exactly.
  auto micros =
      load_batch(data_.train, recipe(), {steps_done_, samples_consumed_, shape, percent}, rank, model_.device());
  for (MicroBatch& micro : micros) {
    micro.backward_scale = model_.loss_scale().value();
    micro.fp8_history = model_.fp8_history();
  }
  const bool measures = recipe().log.fp8_statistics && has_row(recipe(), steps_done_ + 1);
  Fp8Statistics statistics;
  if (measures) measure_with(&statistics, micros);
  StepResult result = runner_.step(micros, steps_done_, stop);
  if (measures) {
    result.fp8 = over_ranks(statistics, model_.groups());
    measure_with(nullptr, micros);
  }
  ++steps_done_;
  samples_consumed_ += recipe().batch.global;
  tokens_trained_ += tokens_of_step(recipe(), shape);
  // An overflow that a lower loss scale may cure is no sign of divergence.
  if (!result.lowers_scale) skipped_.in_a_row = result.skipped ? skipped_.in_a_row + 1 : 0;
  if (result.skipped) ++skipped_.total;
  fault_point(FaultPlace::weights, communicator.rank(), steps_done_, first_weights(model_));
  return result;
}

void Trainer::measure_with(Fp8Statistics* statistics, std::span<MicroBatch> micros) {
  for (MicroBatch& micro : micros) micro.fp8_statistics = statistics;
  for (const ParameterUnit* unit : model_.units()) unit->parameters->set_statistics(statistics);
}

double Trainer::evaluate() {
  return llmtrain::evaluate(model_, *data_.validation, recipe().training.evaluate_batches * recipe().batch.global).loss;
}

CheckpointState Trainer::state() const {
  return {.step = steps_done_,
          .data_position = samples_consumed_,
          .seed = recipe().seed,
          .recipe = to_json(recipe()),
          .skipped = skipped_,
          .recent = {model_.spikes().state().losses, model_.spikes().state().gradient_norms},
          .tokens = cuts_samples() ? std::optional(tokens_trained_) : std::nullopt};
}

void Trainer::resume(const CheckpointReader& checkpoint) {
  fault_point(FaultPlace::load, model_.groups().communicator().rank(), checkpoint.state().step);
  load_state(model_, checkpoint);
  steps_done_ = checkpoint.state().step;
  samples_consumed_ = checkpoint.state().data_position;
  tokens_trained_ = checkpoint.state().tokens.value_or(samples_consumed_ * recipe().batch.sequence_length);
  skipped_ = checkpoint.state().skipped;
  const RecentUpdates& recent = checkpoint.state().recent;
  model_.spikes().set_state({recent.losses, recent.gradient_norms});
}

void Trainer::roll_back(const CheckpointReader& checkpoint) {
  const std::int64_t consumed = samples_consumed_, tokens = tokens_trained_;
  const SkippedUpdates skipped = skipped_;
  resume(checkpoint);
  samples_consumed_ = consumed;
  tokens_trained_ = tokens;
  skipped_ = {.total = skipped.total, .in_a_row = 0, .rollbacks = skipped.rollbacks + 1};
}

}  // namespace llmtrain
