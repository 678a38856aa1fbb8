// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/training/run_training.h"

#include <spdlog/fmt/fmt.h>
#include <spdlog/fmt/ranges.h>

#include <string>
#include <utility>
#include <vector>

#include "core/base/element_type.h"
#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/json/json_text.h"
#include "core/optim/learning_rate.h"
#include "core/recipe/enum_words.h"
#include "core/recipe/keys/resume_rules.h"
#include "core/recipe/model_from/model_from.h"
#include "core/recipe/pipeline_schedules.h"
#include "core/recipe/recipe_difference.h"
#include "core/recipe/recipe_io.h"
#include "core/recipe/step_shapes.h"
#include "parallel/device/device.h"
#include "parallel/engine/data/data_warnings.h"

namespace llmtrain {
namespace {

std::string memory_line(const Recipe& recipe, LocalModel& model) {
  std::int64_t weights = 0, gradients = 0, moments = 0, host = 0, disk = 0;
  // What is allocated, not what the plan predicts: the plan has a line of its own.
  for (const ParameterUnit* unit : model.units()) {
    const ShardedParameters::Bytes bytes = unit->parameters->bytes();
    weights += bytes.weights;
    gradients += bytes.gradients;
    moments += bytes.moments;
    host += bytes.host;
    disk += bytes.disk;
  }
  const std::string compute(element_name(element_type(recipe.precision.compute)));
  if (disk > 0)
    return fmt::format("weights {} ({}), gradients {}; on the disk fp32 masters, if any, and moments {}",
                       format_bytes(weights), compute, format_bytes(gradients), format_bytes(disk));
  if (host > 0)
    return fmt::format("weights {} ({}), gradients {}; on the host fp32 master and moments {}", format_bytes(weights),
                       compute, format_bytes(gradients), format_bytes(host));
  return fmt::format("weights {} ({} compute, fp32 master), gradients {}, moments {}", format_bytes(weights), compute,
                     format_bytes(gradients), format_bytes(moments));
}

// "O1, 12 of 16 products; in bf16 layers.*.attention.output.weight"
std::string fp8_line(const PrecisionRecipe& precision, const Graph& graph) {
  std::int64_t all = 0, in_fp8 = 0;
  for (const Parameter& parameter : graph.parameters) {
    if (!parameter.is_layer_matrix || parameter.joined == Joined::product) continue;
    ++all;
    if (parameter.takes_fp8()) ++in_fp8;
  }
  std::string text =
      fmt::format("{}, {} of {} products", fp8_level_words[static_cast<std::size_t>(precision.fp8_level)], in_fp8, all);
  const std::vector<std::string>& others = precision.high_precision.parameters;
  if (!others.empty()) text += fmt::format("; in {} {}", word_of(precision.compute), fmt::join(others, ", "));
  return printable(text);
}

std::string data_line(const Trainer& trainer) {
  const bool are_images = trainer.recipe().data.images.has_value();
  const auto size_of = [&](const Dataset& data) {
    if (are_images) return format_number_of(data.samples(), "image");
    return fmt::format("{} tokens in {}", format_count(static_cast<double>(data.tokens())),
                       format_number_of(static_cast<std::int64_t>(data.files()), "file"));
  };
  std::string text = size_of(trainer.train_data());
  for (const ValidationSet& set : trainer.data().validation)
    text += "; validation " + (set.name.empty() ? "" : printable(set.name) + ": ") + size_of(set.data);
  return text;
}

// "tensor 2 × data 4 × pipeline 2, breadth_first, ZeRO-3 over 4", without axes of one rank.
std::string layout_text(const Recipe& recipe, const RankGroups& groups) {
  const Mesh& mesh = groups.mesh;
  std::string text;
  const auto add = [&](const char* axis, std::int64_t ranks) {
    if (ranks > 1) text += fmt::format("{}{} {}", text.empty() ? "" : " × ", axis, ranks);
  };
  add("tensor", mesh.tensor);
  add("context", mesh.context);
  add("data", mesh.data);
  add("pipeline", mesh.pipeline);
  if (mesh.pipeline > 1) text += fmt::format(", {}", traits_of(recipe.pipeline.schedule).word);
  if (groups.data.ranks() > 1)
    text += fmt::format(", ZeRO-{} over {}", recipe.parallel.zero_stage, groups.data.shards());
  return text;
}

// Threads need no transport; processes use MPI in any case, and NCCL in addition.
std::string kind_of_ranks(const RunLaunch& launch) {
  const std::string processes = "processes, started by " + launch.launcher + ", over ";
  switch (launch.backend) {
    case CommunicationBackend::local:
      return "threads of this process";
    case CommunicationBackend::mpi:
      return processes + "MPI";
    case CommunicationBackend::nccl:
      return processes + "NCCL";
    case CommunicationBackend::automatic:
      break;
  }
  throw Error(ExitCode::internal_error, "it is open how the ranks communicate");
}

std::string ranks_line(const RunLaunch& launch, const Recipe& recipe, const RankGroups& groups) {
  return fmt::format("{} {}: {}", launch.ranks, kind_of_ranks(launch), layout_text(recipe, groups));
}

// How the model differs from the one that its first weights are from.
OriginDifferences changes_of_origin(const Recipe& recipe) {
  // Later the run's own weights are trained on.
  if (!recipe.training.init_from || RunDirectory::has_checkpoint(recipe)) return {};
  try {
    OriginDifferences changes = origin_differences(recipe.model, read_model_origin(*recipe.training.init_from).model);
    // From the origin's values to the recipe's.
    for (KeyDifference& key : changes.of_positions) std::swap(key.first, key.second);
    return changes;
  } catch (const Error&) {
    // A run without its recipe.json, whose checkpoints have the model.
    return {};
  }
}

std::string model_line(const ModelRecipe& model, const Json& keys, std::int64_t parameters) {
  const auto& image = model.image;
  if (model.resnet)
    return fmt::format("{}, {} blocks in {} stages, {} channels, images of {} × {}: {} parameters",
                       keys.at("architecture").get<std::string>(), model.layers, model.resnet->stages.size(),
                       model.hidden_size, image->size, image->size, format_count(static_cast<double>(parameters)));
  const std::string reads = image
                                ? fmt::format("images of {0} × {0} in patches of {1} × {1}", image->size, image->patch)
                                : fmt::format("vocabulary {}", model.vocab_size);
  return fmt::format("{}, {} layers × {} wide, {} heads, {}: {} parameters", keys.at("architecture").get<std::string>(),
                     model.layers, model.hidden_size, model.heads, reads,
                     format_count(static_cast<double>(parameters)));
}

std::string batch_line(const Recipe& recipe) {
  const BatchRecipe& batch = recipe.batch;
  const bool are_images = recipe.model.image.has_value();
  const char *samples = are_images ? "images" : "sequences", *rows = are_images ? "rows" : "tokens";
  return fmt::format("{} {} × {} {} = {} {} per step, {} at a time; {} steps", batch.global, samples,
                     batch.sequence_length, rows, batch.global * batch.sequence_length, rows, batch.micro,
                     recipe.training.steps);
}

}  // namespace

void show_start_screen(const RunRequest& request, Trainer& trainer, const RunDirectory& directory) {
  const Recipe& recipe = request.recipe();
  const BatchRecipe& batch = recipe.batch;
  const auto show = [](const char* what, const std::string& text) { log().info("  {:<9}{}", what, text); };
  log().info("llmtrain: {}", recipe.name);
  show("model", model_line(recipe.model, to_json(recipe).at("model"), trainer.model().graph().parameter_count()));
  show("batch", batch_line(recipe));
  if (batch.growth)
    show("", fmt::format("from {} sequences per step on, and {} more at a time, over {} sequences", batch.growth->start,
                         batch.growth->increment, batch.growth->samples));
  const OriginDifferences changes = changes_of_origin(recipe);
  if (!changes.of_positions.empty()) {
    show("weights", printable(*recipe.training.init_from) + ", with other positions:");
    for (const KeyDifference& key : changes.of_positions) show("", printable(key.text()));
  }
  if (!trainer.begun_anew().empty())
    show("new head", printable(fmt::format("{} begin at random, as {} has none of these classes",
                                           fmt::join(trainer.begun_anew(), ", "), *recipe.training.init_from)));
  if (const auto& tokens = changes.of_tokens)
    show("weights", fmt::format("{}, with {} tokens more, whose rows begin as the mean of its {}",
                                printable(*recipe.training.init_from),
                                tokens->first.get<std::int64_t>() - tokens->second.get<std::int64_t>(),
                                tokens->second.get<std::int64_t>()));
  show("memory", memory_line(recipe, trainer.model()));
  if (multiplies_fp8(recipe.precision.fp8_level)) show("fp8", fp8_line(recipe.precision, trainer.model().graph()));
  show("device", describe_device(trainer.model().device()));
  if (recipe.precision.tf32 && trainer.model().device().is_cpu())
    log().warn("precision.tf32: this processor multiplies fp32 exactly, which is as slow as without the key");
  show("data", data_line(trainer));
  for (const std::string& warning : data_warnings(recipe, trainer.data())) log().warn("{}", warning);
  if (request.launch.ranks > 1) show("ranks", ranks_line(request.launch, recipe, trainer.model().groups()));
  if (request.plan)
    show("plan", fmt::format("{} per step, {} at most (profile {})", format_duration(request.plan->step_seconds),
                             format_bytes(static_cast<std::int64_t>(request.plan->peak_bytes)), request.plan->profile));
  show("run", directory.path().string() + "; report.html in it shows how it goes");
}

void show_changes(const RunDirectory& directory, const Trainer& trainer) {
  if (!directory.former_recipe()) return;
  const Recipe &before = *directory.former_recipe(), &now = trainer.recipe();
  const auto changes = recipe_differences(before, now);
  if (changes.empty()) return;
  log().info("the run goes on with another recipe than before:");
  for (const KeyDifference& key : changes) log().info("  {}", printable(key.text()));
  const auto rate_of = [&](const Recipe& recipe) {
    const LearningRateRecipe& rate = recipe.training.learning_rate;
    return learning_rate_at(rate, schedule_position(rate, StepShapes(recipe), trainer.steps_done()));
  };
  const double was = rate_of(before), is = rate_of(now);
  // A longer schedule may raise a rate that was about to end: people should know before the loss shows it.
  if (was != is) log().info("  learning rate of step {}: {:.3g} -> {:.3g}", trainer.steps_done() + 1, was, is);
}

void warn_of_other_data(const CheckpointReader& checkpoint, const Trainer& trainer) {
  const Recipe before = recipe_of(checkpoint);
  const Recipe& now = trainer.recipe();
  const auto orders_data = [&](const KeyDifference& key) {
    const bool is_of_data = key.key.starts_with("data.") || key.key == "batch.sequence_length" || key.key == "seed";
    return is_of_data && !reason_against_change(key.pointer(), now).empty();
  };
  std::string keys;
  for (const KeyDifference& key : recipe_differences(before, now))
    if (orders_data(key)) keys += "\n  " + printable(key.text());
  if (keys.empty()) return;
  log().warn(
      "the run goes on from {} with other data, of which it reads sample {} next, as if it had read those before:{}",
      checkpoint.folder().string(), trainer.samples_consumed() + 1, keys);
}

void show_nothing_to_do(const Trainer& trainer) {
  const std::int64_t done = trainer.steps_done(), steps = trainer.recipe().training.steps;
  if (done == steps) {
    log().info("all {} steps are already done; raise training.steps to train on", done);
  } else if (trainer.stops_early()) {
    log().info("the run has ended after step {}, as training.early_stopping says; raise its evaluations to train on",
               done);
  } else {
    log().info("the run has done {} steps, and training.steps is {}: nothing to do", done, steps);
  }
}

}  // namespace llmtrain
