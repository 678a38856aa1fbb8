// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/loaded_model.h"

#include <memory>

#include "core/checkpoint/stored_model.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/local/local_world.h"
#include "parallel/device/device.h"
#include "parallel/engine/fp8_history_state.h"
#include "parallel/engine/model_state.h"
#include "parallel/runtime/rank_devices.h"

namespace llmtrain {
namespace {

std::shared_ptr<const Layout> inference_layout(Recipe recipe, const InferenceRanks& ranks) {
  // One micro-batch passes every rule of meshes, whatever the recipe says.
  recipe.parallel = {};
  recipe.parallel.tensor = ranks.tensor;
  recipe.parallel.expert_tensor = ranks.tensor;
  recipe.parallel.pipeline = ranks.pipeline;
  recipe.pipeline = {};
  recipe.launch = {};
  recipe.launch.ranks = ranks.count();
  recipe.cluster.nodes = 1;
  recipe.batch.global = recipe.batch.micro;
  recipe.batch.growth = std::nullopt;
  // A routing trace is for training, and need not be where the model is only read.
  if (recipe.model.moe) recipe.model.moe->routing_trace = std::nullopt;
  return std::make_shared<const Layout>(Partition::make(recipe, ranks.count()));
}

}  // namespace

std::int64_t with_loaded_model(const Recipe& recipe, const std::string& checkpoint, const InferenceRanks& ranks,
                               const std::function<void(LocalModel&)>& work) {
  prepare_process(ranks.count());
  const CheckpointReader reader(checkpoint);
  const auto layout = inference_layout(recipe, ranks);
  // Before the model takes memory, which a checkpoint's recipe alone must not decide.
  require_weights(reader, layout->graph());
  reader.verify();
  const auto run = [&](Communicator& communicator, const at::Device& device) {
    LocalModel model(layout, communicator, device, StateContents::weights);
    load_weights(model, reader);
    read_fp8_history(reader, model);
    work(model);
  };
  if (ranks.count() == 1) {
    run(*make_solo_communicator(), choose_device(recipe.cluster.device));
    return reader.state().step;
  }
  const LocalOptions options;
  LocalWorld(static_cast<int>(ranks.count()), options).run([&](Communicator& communicator) {
    prepare_rank_thread();
    const c10::Device device = choose_device(recipe.cluster.device, communicator.rank());
    // Not owned: the world owns the communicator and outlives this call.
    const std::shared_ptr<Communicator> local(&communicator, [](Communicator*) {});
    run(*connect_devices(local, CommunicationBackend::local, device, options.watchdog_seconds), device);
  });
  return reader.state().step;
}

}  // namespace llmtrain
