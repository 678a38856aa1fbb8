// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/trainer.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cmath>
#include <cstddef>
#include <filesystem>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/new_head.h"
#include "core/checkpoint/stored_model.h"
#include "core/graph/adapters.h"
#include "core/huggingface/adapted_base.h"
#include "core/huggingface/adapters.h"
#include "core/huggingface/resized_weights.h"
#include "core/json/json_text.h"
#include "core/recipe/checkpoint_source.h"
#include "core/recipe/left_out_base.h"
#include "core/recipe/recipe_io.h"
#include "core/recipe/step_shapes.h"
#include "parallel/comm/agreement.h"
#include "parallel/device/profiler_range.h"
#include "parallel/device/tensor_fault.h"
#include "parallel/engine/data/batch_loader.h"
#include "parallel/engine/model_state.h"
#include "parallel/shard/step_scalars.h"
#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

// The newest intact checkpoint of a run, the same on all ranks. Collective.
CheckpointReader newest_checkpoint_of(const std::filesystem::path& run, Communicator& communicator,
                                      const WorkMonitor& monitor) {
  std::optional<CheckpointReader> newest;
  std::string reason = "it has no intact checkpoint";
  SharedVerification(communicator, monitor).run([&](const VerifyCheckpoint& verify) {
    std::vector<std::string> skipped;
    try {
      newest = open_newest_checkpoint(run / "checkpoints", skipped, verify);
    } catch (const Error& error) {
      if (error.code() == ExitCode::stopped) throw;
      // Thrown below on all ranks.
      reason = error.what();
    }
    for (const std::string& each : skipped) log().warn(each);
  });
  const std::string folder = share_text(communicator, newest ? newest->folder().string() : "");
  reason = share_text(communicator, reason);
  if (folder.empty())
    throw Error(ExitCode::missing_input, run.string() + ": training.init_from names this run, but " + reason);
  const CheckpointReader opened = newest ? *newest : CheckpointReader(folder);
  // The run may go on and remove its older checkpoints: the first rank keeps this one until all have opened it.
  exchange_numbers(communicator, 0);
  return opened;
}

bool is_run(const std::string& source) {
  std::error_code unknown;
  return std::filesystem::is_directory(std::filesystem::path(source) / "checkpoints", unknown);
}

// All that a checkpoint holds and the base that it leaves out.
std::unique_ptr<const WeightSource> all_weights_of(const CheckpointReader& checkpoint, const Recipe& recipe) {
  return whole_weights(checkpoint, recipe, Graph::build(recipe.model),
                       scalar_type(element_type(recipe.precision.compute)));
}

// The names of those parameters that keep their random weights.
template <class Keeps>
std::vector<std::string> names_of(const Graph& graph, Keeps keeps) {
  std::vector<std::string> names;
  for (const Parameter& parameter : graph.parameters)
    if (!parameter.is_adapter && keeps(parameter)) names.push_back(parameter.name);
  return names;
}

// Returns the names of the parameters of which the source has no weights, as of a head for other classes.
std::vector<std::string> load_weights_of(LocalModel& model, const std::string& source, const WorkMonitor& monitor) {
  const std::string loading = "loading the weights of " + source;
  const Graph& graph = model.graph();
  if (const auto folder = huggingface_folder(source)) {
    const auto weights = open_huggingface(*folder, graph);
    load_weights(model, *weights, monitor.begin(loading));
    return names_of(graph, [&](const Parameter& parameter) { return !weights->holds(parameter); });
  }
  Communicator& communicator = model.groups().communicator();
  const CheckpointReader checkpoint =
      is_run(source) ? newest_checkpoint_of(source, communicator, monitor) : CheckpointReader(source);
  check_origin(model.recipe().model, checkpoint);
  // All ranks hash a share of the files: one rank alone would take as many times as long. Those of a run have been
  // verified by the search.
  if (!is_run(source)) verify_together(communicator, checkpoint, monitor);
  const Recipe before = recipe_of(checkpoint);
  std::vector<std::string> anew = names_of(graph, [&](const Parameter& parameter) {
    const bool is_stored = checkpoint.find(weights_name(checkpoint, parameter)) != nullptr;
    return begins_anew(parameter, graph.model, before.model, is_stored);
  });
  if (before.model.vocab_size == graph.model.vocab_size)
    load_weights(model, checkpoint, monitor.begin(loading), anew);
  else
    load_weights(model, ResizedWeights(all_weights_of(checkpoint, before), graph, before.model.vocab_size),
                 monitor.begin(loading), anew);
  return anew;
}

// What the weights of the model without its adapters are read from, a box at a time. Collective where it is a run.
std::unique_ptr<const WeightSource> base_of(LocalModel& model, const std::string& source, const WorkMonitor& monitor) {
  if (const auto folder = huggingface_folder(source)) return open_huggingface(*folder, model.graph());
  const CheckpointReader checkpoint =
      is_run(source) ? newest_checkpoint_of(source, model.groups().communicator(), monitor) : CheckpointReader(source);
  return all_weights_of(checkpoint, recipe_of(checkpoint));
}

void load_adapters_of(LocalModel& model, const std::string& folder, const WorkMonitor& monitor) {
  NamedWeights weights = load_peft(folder, model.graph());
  const Recipe& recipe = model.recipe();
  // A rule of the recipe asks for a base where adapters have magnitudes.
  if (recipe.model.lora->dora)
    weights = above_base(std::move(weights), model.graph(), *base_of(model, *recipe.training.init_from, monitor));
  load_weights(model, NamedWeightSource(std::move(weights)));
}

// Opens what the first weights come from, as far as that needs no model: a mistake is reported before the data are
// tokenised, which may take hours. A run's checkpoints are searched later, by all ranks together.
void check_first_weights(const Layout& layout) {
  const TrainingRecipe& training = layout.recipe().training;
  if (const auto& folder = training.adapters_from) load_peft(*folder, layout.graph());
  if (!training.init_from) return;
  const std::string& source = *training.init_from;
  if (const auto folder = huggingface_folder(source)) {
    open_huggingface(*folder, layout.graph());
  } else if (!is_run(source)) {
    check_origin(layout.recipe().model, CheckpointReader(source));
  }
}

// A position in the data means the same samples only in the same files: with one more of them all that is left would
// come in another order, and some of it twice.
void check_same_data(const Recipe& recipe, const std::vector<std::int64_t>& samples, const CheckpointState& state) {
  // A checkpoint of another run may be of other data, or of an older version that did not count.
  if (state.samples.size() != samples.size() || !state.recipe.is_object()) return;
  const Json own = to_json(recipe);
  for (const char* pointer : {"/data/train", "/batch/sequence_length"}) {
    const Json::json_pointer key(pointer);
    if (!state.recipe.contains(key) || state.recipe.at(key) != own.at(key)) return;
  }
  for (std::size_t i = 0; i < samples.size(); ++i) {
    if (samples[i] == state.samples[i]) continue;
    throw Error(
        ExitCode::bad_data,
        fmt::format("/data/train/{}/path: its files have {} samples, and had {} when the checkpoint was written, "
                    "by which the run's position in its data counts; restore the files, or start another run "
                    "from its weights with training.init_from",
                    i, samples[i], state.samples[i]));
  }
}

RunData open_data(const Layout& layout, const DataCache& cache, FirstWeights first, const WorkMonitor& monitor) {
  if (first == FirstWeights::load) check_first_weights(layout);
  return open_run_data(layout.recipe(), cache, monitor);
}

// The rank's first parameter, in the memory that it trains; none while it is gathered for use.
at::Tensor first_weights(LocalModel& model) {
  const ParameterUnit& unit = *model.units().front();
  if (model.gathers_for_use() || unit.store->has_scaled_weights()) return {};
  return unit.store->weight(unit.store->ranges().front().parameter);
}

// What all ranks have measured, in rank order. Collective; blocks.
std::vector<Fp8Representation> over_ranks(const Fp8Statistics& own, const RankGroups& groups) {
  using Values = std::array<double, sizeof(Fp8Representation) / sizeof(double)>;
  ScalarTable table;
  for (const char* kind : fp8_tensor_words) table.declare(kind, Combination::gather, Values().size());
  StepScalars scalars(table);
  for (std::size_t kind = 0; kind < Fp8Statistics::kinds; ++kind)
    scalars.add(fp8_tensor_words[kind], std::bit_cast<Values>(own.of_kinds()[kind]));
  scalars.exchange(groups);
  std::vector<Fp8Representation> kinds(Fp8Statistics::kinds);
  for (std::size_t kind = 0; kind < kinds.size(); ++kind) {
    const std::vector<double> all = scalars.numbers(fp8_tensor_words[kind]);
    for (auto rank = all.begin(); rank != all.end(); rank += std::ssize(Values())) {
      Values theirs;
      std::copy_n(rank, theirs.size(), theirs.begin());
      add(kinds[kind], std::bit_cast<Fp8Representation>(theirs));
    }
  }
  return kinds;
}

double counted_loss(double loss) { return std::isfinite(loss) ? loss : std::numeric_limits<double>::max(); }

// The history with one evaluation more, without the losses of its sets.
EvaluationHistory continued(const std::optional<EvaluationHistory>& before, std::int64_t step, double loss,
                            double improvement) {
  const double counted = counted_loss(loss);
  if (!before || counted < before->best_loss - improvement) return {step, counted, step, counted, 0};
  return {step, counted, before->best_step, before->best_loss, before->without_progress + 1};
}

}  // namespace

Trainer::Trainer(std::shared_ptr<const Layout> layout, Communicator& communicator, const at::Device& device,
                 const DataCache& cache, FirstWeights first, WorkMonitor monitor, const BlockFactory& make)
    : monitor_(std::move(monitor)),
      data_(open_data(*layout, cache, first, monitor_)),
      model_(std::move(layout), communicator, device, StateContents::training, make),
      runner_(model_),
      batches_(device, [this](const BatchPlace& place) {
        const DataRank rank = data_rank(model_.groups(), place.shape.sequence_length, model_.fields());
        return load_batch(StepSamples(data_.train, recipe().batch, place), model_.graph().row_losses(), recipe(), place,
                          rank, at::kCPU);
      }) {
  if (recipe().memory.arena && device.is_cpu()) arena_ = std::make_unique<StepArena>();
  if (first == FirstWeights::load) load_first_weights();
}

void Trainer::load_first_weights() {
  if (std::exchange(has_first_weights_, true)) return;
  if (const auto& source = recipe().training.init_from) anew_ = load_weights_of(model_, *source, monitor_);
  if (const auto& folder = recipe().training.adapters_from) load_adapters_of(model_, *folder, monitor_);
  name_base();
}

void Trainer::name_base() {
  const auto folder = left_out_base(recipe());
  if (!folder) return;
  Communicator& communicator = model_.groups().communicator();
  std::string fingerprint;
  run_on_first(communicator, [&](const std::atomic<bool>&) {
    const auto base = open_huggingface(*folder, model_.graph());
    const auto is_held = [&](const Parameter& parameter) { return !parameter.is_frozen || base->holds(parameter); };
    // Where the folder lacks some of what is frozen, checkpoints are the only place that has it.
    if (std::ranges::all_of(model_.graph().parameters, is_held)) fingerprint = base_fingerprint(*base, model_.graph());
  });
  fingerprint = share_text(communicator, fingerprint);
  if (!fingerprint.empty()) base_ = BaseModel{*recipe().training.init_from, fingerprint};
}

StepResult Trainer::step(StopRequest stop) {
  Communicator& communicator = model_.groups().communicator();
  const ProfilerRange range("step " + std::to_string(steps_done_ + 1));
  communicator.log().set_activity(steps_done_ + 1, "reading its batch");
  fault_point(FaultPlace::data, communicator.rank(), steps_done_ + 1);
  StepArena::Step in_arena(arena_.get());
  const StepShape shape = runner_.shapes().at(steps_done_);
  auto micros = batches_.take(place_of(steps_done_, samples_consumed_));
  if (steps_done_ + 1 < recipe().training.steps)
    batches_.start(place_of(steps_done_ + 1, samples_consumed_ + shape.global_batch));
  for (PassInput& micro : micros) {
    micro.context.set_backward_scale(model_.loss_scale().value());
    micro.context.recorders = {.token_choices = choices_, .fp8_history = model_.fp8_history()};
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
  evaluation_is_due_ = false;
  samples_consumed_ += shape.global_batch;
  tokens_trained_ += tokens_of_step(recipe(), shape);
  // An overflow that a lower loss scale may cure is no sign of divergence.
  if (!result.lowers_scale) skipped_.in_a_row = result.skipped ? skipped_.in_a_row + 1 : 0;
  if (result.skipped) ++skipped_.total;
  tensor_fault_point(FaultPlace::weights, communicator.rank(), steps_done_, first_weights(model_));
  micros.clear();
  in_arena.finish();
  return result;
}

// The order of samples is a function of the seed, the step and the count of consumed ones, so a resumed run continues
// exactly.
BatchPlace Trainer::place_of(std::int64_t step, std::int64_t consumed) const {
  return {step, consumed, runner_.shapes().at(step), easiest_percent(recipe().data.curriculum, step)};
}

void Trainer::measure_with(Fp8Statistics* statistics, std::span<PassInput> micros) {
  for (PassInput& micro : micros) micro.context.recorders.fp8_statistics = statistics;
  for (const ParameterUnit* unit : model_.units()) unit->parameters->set_statistics(statistics);
}

double Trainer::evaluate() {
  return evaluate([](double) { return false; })->loss;
}

std::optional<Evaluation> Trainer::evaluate(const EvaluationWatch& watch, const FurtherFigures& further) {
  const std::int64_t samples = recipe().training.evaluate_batches * recipe().batch.global;
  std::vector<Evaluation> evaluations;
  // What is done next to another takes as long as a set, for all that is known.
  const double parts = static_cast<double>(data_.validation.size()) + (further ? 1 : 0);
  evaluation_is_due_ = true;
  if (arena_) arena_->rest();
  for (const ValidationSet& set : data_.validation) {
    const double before = static_cast<double>(evaluations.size());
    auto one =
        llmtrain::evaluate(model_, set.data, samples, [&](double share) { return watch((before + share) / parts); });
    if (!one) return std::nullopt;
    evaluations.push_back(*std::move(one));
  }
  if (further) {
    const Dataset& judged = data_.validation.at(data_.judged).data;
    const std::int64_t most = samples == 0 ? judged.samples() : std::min(samples, judged.samples());
    auto figures = further(judged, most, [&](double share) { return watch((parts - 1 + share) / parts); });
    if (!figures) return std::nullopt;
    std::ranges::move(*figures, std::back_inserter(evaluations[data_.judged].figures));
  }
  evaluation_is_due_ = false;
  Evaluation judged = evaluations.at(data_.judged);
  for (std::size_t i = 0; i < evaluations.size(); ++i)
    if (!data_.validation[i].name.empty()) judged.sets.push_back({data_.validation[i].name, evaluations[i].loss});
  const auto& stopping = recipe().training.early_stopping;
  evaluations_ = continued(evaluations_, steps_done_, judged.loss, stopping ? stopping->improvement : 0);
  for (const LossValue& set : judged.sets) evaluations_->sets.emplace_back(set.name, counted_loss(set.value));
  return judged;
}

bool Trainer::stops_early() const {
  const auto& stopping = recipe().training.early_stopping;
  return stopping && evaluations_ && evaluations_->without_progress >= stopping->evaluations;
}

CheckpointState Trainer::state() const {
  return {.step = steps_done_,
          .data_position = samples_consumed_,
          .seed = recipe().seed,
          .recipe = to_json(recipe()),
          .skipped = skipped_,
          .recent = model_.spikes().recent(),
          .tokens = cuts_samples() ? std::optional(tokens_trained_) : std::nullopt,
          .samples = data_.train.samples_by_source(),
          .evaluation_is_due = evaluation_is_due_,
          .evaluations = evaluations_,
          .base = base_};
}

void Trainer::resume(const CheckpointReader& checkpoint) {
  fault_point(FaultPlace::load, model_.groups().communicator().rank(), checkpoint.state().step);
  check_same_data(recipe(), data_.train.samples_by_source(), checkpoint.state());
  load_state(model_, checkpoint, monitor_.begin("loading " + checkpoint.folder().string()));
  // A run whose checkpoints are whole goes on so: its weights need not be those of the folder any more.
  base_ = left_out_base(recipe()) ? checkpoint.state().base : std::nullopt;
  if (base_) base_->source = *recipe().training.init_from;
  steps_done_ = checkpoint.state().step;
  samples_consumed_ = checkpoint.state().data_position;
  tokens_trained_ = checkpoint.state().tokens.value_or(samples_consumed_ * recipe().batch.sequence_length);
  evaluation_is_due_ = checkpoint.state().evaluation_is_due;
  evaluations_ = checkpoint.state().evaluations;
  // Losses of another set say nothing of this one's progress.
  if (evaluations_ && checkpoint.state().recipe.is_object() &&
      judged_name(recipe_of(checkpoint)) != judged_name(recipe()))
    evaluations_.reset();
  skipped_ = checkpoint.state().skipped;
  model_.spikes().set_recent(checkpoint.state().recent);
}

void Trainer::roll_back(const CheckpointReader& checkpoint) {
  const std::int64_t consumed = samples_consumed_, tokens = tokens_trained_;
  const SkippedUpdates skipped = skipped_;
  resume(checkpoint);
  // What led to the divergence is left out: the run goes on with the data that follow, at the older weights.
  samples_consumed_ = consumed;
  evaluation_is_due_ = false;  // this run has done it
  tokens_trained_ = tokens;
  skipped_ = {.total = skipped.total, .in_a_row = 0, .rollbacks = skipped.rollbacks + 1};
}

}  // namespace llmtrain
