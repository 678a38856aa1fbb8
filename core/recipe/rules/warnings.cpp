// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <vector>

#include "core/recipe/easiest_share.h"
#include "core/recipe/rules/rules.h"
#include "core/recipe/step_shapes.h"

namespace llmtrain {
namespace {

// Schedules of what steps train on that the run does not come to the end of.
void warn_of_unfinished(const Recipe& recipe, std::vector<std::string>& warnings) {
  const std::int64_t steps = recipe.training.steps;
  const StepShapes shapes(recipe);
  const StepShape& last = shapes.at(steps - 1);
  const auto warn = [&](const char* key, std::int64_t tokens) {
    warnings.push_back(std::string(key) + ".steps: the run (training.steps " + std::to_string(steps) +
                       ") ends before it, at " + std::to_string(tokens) + " of batch.sequence_length " +
                       std::to_string(recipe.batch.sequence_length) + " tokens");
  };
  if (last.sequence_length < recipe.batch.sequence_length)
    warn("data.curriculum.sequence_length", last.sequence_length);
  if (last.kept_tokens > 0) warn("training.token_dropping", last.kept_tokens);
  if (last.global_batch < recipe.batch.global)
    warnings.push_back(fmt::format(
        "batch.growth.samples: the run (training.steps {}) ends before it, at {} of batch.global {} sequences", steps,
        last.global_batch, recipe.batch.global));
  const std::int64_t percent = easiest_percent(recipe.data.curriculum, steps - 1);
  if (percent < all_percent)
    warnings.push_back("data.curriculum.vocabulary_rarity.steps: the run (training.steps " + std::to_string(steps) +
                       ") ends before it, at " + std::to_string(percent) + " % of the samples");
  const LearningRateRecipe& rate = recipe.training.learning_rate;
  const double end = schedule_position(rate, shapes, steps);
  // A step more or less is rounding.
  if (rate.ends() && rate.decay_steps <= steps && end < static_cast<double>(rate.decay_steps) - 1)
    warnings.push_back(
        "training.learning_rate.decay_steps: the tokens of the run are those of " + std::to_string(std::llround(end)) +
        " whole steps, so that the learning rate does not reach its minimum at " + std::to_string(rate.decay_steps));
}

// A key that has no effect beside the others, and why. Warnings and no rules, because people and planners switch what
// it belongs to on and off by that key alone.
struct Ignored {
  bool is_set = false;
  const char* key = nullptr;
  const char* reason = nullptr;
};

std::vector<Ignored> ignored_fp8(const Recipe& recipe) {
  const PrecisionRecipe& precision = recipe.precision;
  const Fp8ScalingRecipe &scaling = precision.fp8_scaling, defaults;
  const bool multiplies = multiplies_fp8(precision.fp8_level), stores = stores_fp8(precision.fp8_level);
  const bool has_current_scales = multiplies && scaling.method == Fp8ScalingMethod::current;
  return {
      {!multiplies && recipe.log.fp8_statistics, "log.fp8_statistics",
       "there is nothing to describe: precision.fp8_level is \"off\""},
      {!multiplies && precision.fp8_products != Fp8Products::all, "precision.fp8_products",
       "there are no FP8 products: precision.fp8_level is \"off\""},
      {!multiplies && precision.product_format != ProductFormat::fp8, "precision.product_format",
       "there are no such products: precision.fp8_level is \"off\""},
      {!multiplies && scaling != defaults, "precision.fp8_scaling",
       "there is nothing to scale: precision.fp8_level is \"off\""},
      {!multiplies && precision.high_precision != HighPrecisionRecipe{}, "precision.high_precision",
       "all layers are in high precision: precision.fp8_level is \"off\""},
      {!stores && precision.gradient_scaling != GradientScaling::automatic, "precision.gradient_scaling",
       "no gradients are in FP8: they are from precision.fp8_level \"O1\" on"},
      {has_current_scales && scaling.history_steps != defaults.history_steps, "precision.fp8_scaling.history_steps",
       "it is of delayed scales: precision.fp8_scaling.method is \"current\""},
      {has_current_scales && scaling.margin != defaults.margin, "precision.fp8_scaling.margin",
       "it is of delayed scales: precision.fp8_scaling.method is \"current\""},
      {stores && has_current_scales && precision.gradient_scaling == GradientScaling::pre &&
           precision.high_precision.fallback_steps > 0,
       "precision.high_precision.fallback_steps",
       "nothing leaves FP8: with precision.gradient_scaling \"pre\" no sum of gradients saturates, and no operand is "
       "beyond its current scale"},
      {precision.loss_scale != LossScaleRecipe{} && precision.compute != DataType::fp16 &&
           precision.gradients != DataType::fp16,
       "precision.loss_scale", "losses are not scaled: neither precision.compute nor precision.gradients is \"fp16\""},
  };
}

std::vector<Ignored> ignored_model(const ModelRecipe& model) {
  const MixtureOfExpertsRecipe usual, experts = model.moe.value_or(usual);
  const RopeScalingRecipe defaults, scaling = model.rope_scaling.value_or(defaults);
  const bool is_llama3 = scaling.type == RopeScalingType::llama3, is_yarn = scaling.type == RopeScalingType::yarn;
  return {
      {model.position != Position::rope && model.rope_theta != ModelRecipe{}.rope_theta, "model.rope_theta",
       "no positions are rotated: model.position is not \"rope\""},
      {!is_llama3 && (scaling.low_frequency_factor != defaults.low_frequency_factor ||
                      scaling.high_frequency_factor != defaults.high_frequency_factor),
       "model.rope_scaling", "low_frequency_factor and high_frequency_factor are of the type \"llama3\" alone"},
      {!is_yarn && (scaling.beta_fast != defaults.beta_fast || scaling.beta_slow != defaults.beta_slow ||
                    scaling.attention_factor != defaults.attention_factor || scaling.truncate != defaults.truncate),
       "model.rope_scaling", "beta_fast, beta_slow, attention_factor and truncate are of the type \"yarn\" alone"},
      {experts.capacity_factor == 0 && experts.priority == RouterPriority::score, "model.moe.priority",
       "all tokens have a place: model.moe.capacity_factor is 0"},
      {experts.balance_loss == BalanceLoss::none && experts.balance_coefficient != usual.balance_coefficient,
       "model.moe.balance_coefficient", "there is no loss to weigh: model.moe.balance_loss is \"none\""},
      {model.lora && model.lora->base != LoraBase::nf4 && !model.lora->double_quantization,
       "model.lora.double_quantization", "nothing is quantized: model.lora.base is \"compute\""},
  };
}

std::vector<Ignored> ignored_weights(const DataRecipe& data) {
  const auto has_weight = [](const DataSource& source) { return source.weight != DataSource{}.weight; };
  const auto weighs_alone = [&](const std::vector<DataSource>& sources) {
    return sources.size() == 1 && has_weight(sources.front());
  };
  return {
      {weighs_alone(data.train), "data.train.0.weight", "there is no other source to weigh it against"},
      {weighs_alone(data.validation) && !are_named_sets(data.validation), "data.validation.0.weight",
       "there is no other source to weigh it against"},
      {are_named_sets(data.validation) && std::ranges::any_of(data.validation, has_weight), "data.validation",
       "its weights mix sources, and each of its entries is a set with a loss of its own"},
  };
}

// Schedules that begin where they end change nothing.
std::vector<Ignored> ignored_schedules(const Recipe& recipe) {
  const CurriculumRecipe& curriculum = recipe.data.curriculum;
  const bool drops = recipe.training.token_dropping.has_value(), has_lengths = curriculum.sequence_length.has_value();
  if (!drops && curriculum == CurriculumRecipe()) return {};
  const StepShapes shapes(recipe);
  const auto is_whole = [](const StepShapes::Run& run) { return run.shape.kept_tokens == 0; };
  return {
      {has_lengths && shapes.at(0).sequence_length == recipe.batch.sequence_length, "data.curriculum.sequence_length",
       "all sequences are whole from the first step on"},
      {curriculum.vocabulary_rarity && easiest_percent(curriculum, 0) == all_percent,
       "data.curriculum.vocabulary_rarity", "all samples are easy enough from the first step on"},
      {drops && std::ranges::all_of(shapes.runs(), is_whole), "training.token_dropping", "no step drops tokens"},
  };
}

std::vector<Ignored> ignored_training(const Recipe& recipe) {
  const TrainingRecipe& training = recipe.training;
  const LearningRateRecipe& rate = training.learning_rate;
  const SpikeRecipe& spikes = training.spikes;
  const bool is_constant = rate.schedule == LearningRateSchedule::constant;
  const bool is_wsd = rate.schedule == LearningRateSchedule::wsd;
  return {
      {training.optimizer.name != OptimizerKind::muon && training.optimizer.muon != MuonRecipe{},
       "training.optimizer.muon", "nothing is orthogonalised: training.optimizer.name is \"adamw\""},
      {is_constant && rate.minimum != 0, "training.learning_rate.minimum",
       "the learning rate stays at its peak: training.learning_rate.schedule is \"constant\""},
      {!rate.ends() && rate.decay_steps != training.steps, "training.learning_rate.decay_steps",
       "the learning rate does not end there: training.learning_rate.schedule is \"constant\" or \"inverse_sqrt\""},
      {!is_wsd && rate.decay_length, "training.learning_rate.decay_length",
       "there is no decay at the end: training.learning_rate.schedule is not \"wsd\""},
      {!is_wsd && rate.decay_shape != DecayShape::linear, "training.learning_rate.decay_shape",
       "there is no decay at the end: training.learning_rate.schedule is not \"wsd\""},
      {rate.schedule != LearningRateSchedule::cosine_restarts && rate.cycles != 1, "training.learning_rate.cycles",
       "nothing begins again: training.learning_rate.schedule is not \"cosine_restarts\""},
      {training.evaluate_every == 0 && training.evaluate_batches != 0, "training.evaluate_batches",
       "a run does not evaluate: training.evaluate_every is 0"},
      {training.evaluate_every == 0 && training.generation, "training.generation",
       "a run does not evaluate: training.evaluate_every is 0"},
      {spikes.loss == 0 && spikes.gradient_norm == 0 && spikes.window != SpikeRecipe{}.window, "training.spikes.window",
       "nothing is a spike: training.spikes.loss and training.spikes.gradient_norm are 0"},
      {training.rollbacks > 0 && training.skip_limit == 0, "training.rollbacks",
       "no number of skipped updates ends a run: training.skip_limit is 0"},
      {training.rollbacks > 0 && training.skip_limit > 0 && recipe.checkpoint.every == 0, "training.rollbacks",
       "there is no checkpoint to return to: checkpoint.every is 0"},
  };
}

std::vector<Ignored> ignored_running(const Recipe& recipe) {
  const ParallelRecipe& parallel = recipe.parallel;
  const LaunchRecipe& launch = recipe.launch;
  const CheckpointRecipe& checkpoint = recipe.checkpoint;
  const bool has_links = launch.link_delay_microseconds != 0 || launch.link_megabytes_per_second != 0 ||
                         launch.link_message_microseconds != 0;
  return {
      {parallel.sequence && parallel.tensor == 1, "parallel.sequence",
       "there are no tensor ranks to split sequences: parallel.tensor is 1"},
      {parallel.zero_stage == 0 && parallel.zero_shard_ranks, "parallel.zero_shard_ranks",
       "nothing is sharded: parallel.zero_stage is 0"},
      {launch.node_link_speedup != 1 && !has_links, "launch.node_link_speedup",
       "there is nothing to speed up: no key of launch slows links down"},
      {checkpoint.keep == 0 && checkpoint.keep_every != 0, "checkpoint.keep_every",
       "all checkpoints are kept: checkpoint.keep is 0"},
      {checkpoint.keep == 0 && checkpoint.keep_best != 0, "checkpoint.keep_best",
       "all checkpoints are kept: checkpoint.keep is 0"},
      {checkpoint.every == 0 && checkpoint.on_failure == SaveFailure::go_on, "checkpoint.on_failure",
       "the only checkpoint is the last one, without which a run fails: checkpoint.every is 0"},
  };
}

}  // namespace

std::vector<std::string> recipe_warnings(const Recipe& recipe) {
  std::vector<std::string> warnings;
  const auto& rate = recipe.training.learning_rate;
  const std::int64_t steps = recipe.training.steps;
  // How long a run of epochs is, is known once its samples have been counted.
  const bool is_counted = !recipe.training.counts_steps();
  if (is_counted && rate.warmup_steps > steps) {
    const double reached = rate.peak * static_cast<double>(steps) / static_cast<double>(rate.warmup_steps);
    warnings.push_back(
        fmt::format("training.learning_rate.warmup_steps: {} is longer than the run (training.steps {}): the learning "
                    "rate ends at {:.3g}, below its peak of {}",
                    rate.warmup_steps, steps, reached, rate.peak));
  }
  if (is_counted && (recipe.data.curriculum != CurriculumRecipe() || recipe.training.token_dropping))
    warn_of_unfinished(recipe, warnings);
  for (const auto& part : {ignored_fp8(recipe), ignored_model(recipe.model), ignored_weights(recipe.data),
                           ignored_schedules(recipe), ignored_training(recipe), ignored_running(recipe)})
    for (const Ignored& one : part)
      if (one.is_set) warnings.push_back(std::string(one.key) + ": " + one.reason);
  return warnings;
}

}  // namespace llmtrain
