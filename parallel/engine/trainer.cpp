// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/trainer.h"

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "core/checkpoint/huggingface.h"
#include "core/recipe/recipe_io.h"
#include "parallel/engine/batch_loader.h"
#include "parallel/engine/device.h"
#include "parallel/engine/evaluation.h"
#include "parallel/engine/model_state.h"
#include "parallel/engine/verify_together.h"

namespace llmtrain {
namespace {

constexpr std::string_view huggingface_prefix = "hf:";

Dataset open_data(const Recipe& recipe, const std::vector<DataSource>& sources, bool shuffle, const std::string& role) {
  return Dataset(sources, recipe.data.tokenizer, recipe.batch.sequence_length, recipe.model.vocab_size, shuffle,
                 recipe.seed, role);
}

std::optional<Dataset> open_validation(const Recipe& recipe) {
  if (recipe.data.validation.empty()) return std::nullopt;
  return open_data(recipe, recipe.data.validation, false, "/data/validation");
}

Mesh mesh_of(const Recipe& recipe, const Communicator* communicator) {
  if (communicator == nullptr) return {};
  Recipe sized = recipe;
  sized.launch.ranks = communicator->size();
  const std::int64_t each_node = std::max<std::int64_t>(1, communicator->size() / recipe.cluster.nodes);
  return make_mesh(sized, recipe.cluster.devices_per_node.value_or(each_node));
}

RankGroups groups_of(Communicator* communicator, const Mesh& mesh, const Recipe& recipe) {
  return communicator != nullptr ? RankGroups(*communicator, mesh, recipe) : RankGroups();
}

RankSchedule schedule_of(const Recipe& recipe, const Mesh& mesh, const RankGroups& groups) {
  return make_schedule(schedule_shape(recipe, mesh)).ranks[static_cast<std::size_t>(groups.pipeline.position())];
}

void load_first_weights(LocalModel& model, const std::string& source, Communicator* communicator) {
  if (source.starts_with(huggingface_prefix)) {
    load_weights(model, load_huggingface(source.substr(huggingface_prefix.size()), model.graph()));
    return;
  }
  const CheckpointReader checkpoint(source);
  verify_together(communicator, checkpoint);
  load_weights(model, checkpoint);
}

}  // namespace

Trainer::Trainer(const Recipe& recipe, Communicator* communicator, std::optional<at::Device> device)
    : recipe_(recipe),
      mesh_(mesh_of(recipe, communicator)),
      train_(open_data(recipe_, recipe_.data.train, recipe_.data.shuffle, "/data/train")),
      validation_(open_validation(recipe_)),
      model_(recipe_, device ? *device : choose_device(recipe_.cluster.device),
             groups_of(communicator, mesh_, recipe_)),
      schedule_(schedule_of(recipe_, mesh_, model_.groups())),
      runner_(model_, schedule_, recipe_) {
  if (recipe_.training.init_from) load_first_weights(model_, *recipe_.training.init_from, communicator);
}

StepResult Trainer::step(StopRequest stop) {
  const DataRank rank = data_rank(model_.groups(), recipe_.batch.sequence_length);
  const auto micros = load_batch(train_, recipe_, steps_done_, rank, model_.device());
  const StepResult result = runner_.step(micros, steps_done_, stop);
  ++steps_done_;
  return result;
}

double Trainer::evaluate() {
  return llmtrain::evaluate(model_, *validation_, recipe_, recipe_.training.evaluate_batches * recipe_.batch.global)
      .loss;
}

CheckpointState Trainer::state() const {
  CheckpointState state;
  state.step = steps_done_;
  state.data_position = steps_done_ * recipe_.batch.global;
  state.seed = recipe_.seed;
  state.recipe = to_json(recipe_);
  return state;
}

void Trainer::resume(const CheckpointReader& checkpoint) {
  load_state(model_, checkpoint);
  steps_done_ = checkpoint.state().step;
}

}  // namespace llmtrain
