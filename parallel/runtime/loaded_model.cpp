// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/loaded_model.h"

#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/checkpoint/stored_model.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/local/local_world.h"
#include "parallel/device/device.h"
#include "parallel/engine/fp8_history_state.h"
#include "parallel/engine/model_state.h"
#include "parallel/layout/executable.h"
#include "parallel/runtime/rank_devices.h"
#include "parallel/runtime/rank_threads.h"

namespace llmtrain {
namespace {

// What cannot be combined with weights in a file.
void require_streaming(const Recipe& recipe, const InferenceRanks& ranks) {
  const auto refuse = [](const std::string& why) {
    throw Error(ExitCode::bad_recipe, why + ", so that " + WeightStream::memory_flag + " does not apply to it");
  };
  if (const std::string why = not_streamed(recipe); !why.empty()) refuse(why);
  if (ranks.pipeline > 1) refuse("--pipeline: weights are read from files by ranks that have parts of all layers");
  if (!choose_device(recipe.cluster.device).is_cpu())
    refuse("/cluster/device: weights are read from a file on processors alone (--set cluster.device=cpu)");
}

std::shared_ptr<const Layout> inference_layout(const Recipe& recipe, const InferenceRanks& ranks) {
  Recipe divided = of_one_reader(recipe);
  divided.parallel.tensor = ranks.tensor;
  divided.parallel.expert_tensor = ranks.tensor;
  divided.parallel.pipeline = ranks.pipeline;
  divided.launch.ranks = ranks.count();
  return std::make_shared<const Layout>(Partition::make(divided, ranks.count()));
}

// What becomes a model: the checkpoint is intact, and of this layout.
struct StoredWeights {
  StoredWeights(const std::string& checkpoint, std::shared_ptr<const Layout> of)
      : reader(checkpoint), layout(std::move(of)) {
    // Before the model takes memory, which a checkpoint's recipe alone must not decide.
    require_weights(reader, layout->graph());
    reader.verify();
  }
  // Calls `work` with the model, when its weights are there.
  void use(LocalModel& model, const std::function<void(LocalModel&)>& work) const {
    load_weights(model, reader);
    read_fp8_history(reader, model);
    work(model);
  }
  // With `memory` on a processor.
  void run(Communicator& communicator, const at::Device& device, const std::optional<WeightMemory>& memory,
           const std::function<void(LocalModel&)>& work) const {
    if (memory) {
      LocalModel model(layout, communicator, *memory);
      return use(model, work);
    }
    LocalModel model(layout, communicator, device, StateContents::weights);
    use(model, work);
  }

  CheckpointReader reader;
  std::shared_ptr<const Layout> layout;
};

}  // namespace

std::int64_t with_loaded_model(const Recipe& recipe, const std::string& checkpoint, const InferenceRanks& ranks,
                               const std::optional<WeightMemory>& memory,
                               const std::function<void(LocalModel&)>& work) {
  prepare_process(ranks.count());
  if (memory) require_streaming(recipe, ranks);
  const StoredWeights weights(checkpoint,
                              memory ? std::make_shared<const Layout>(partition_by_blocks(recipe, ranks.tensor))
                                     : inference_layout(recipe, ranks));
  const std::int64_t step = weights.reader.state().step;
  if (ranks.count() == 1) {
    weights.run(*make_solo_communicator(), choose_device(recipe.cluster.device), memory, work);
    return step;
  }
  const LocalOptions options = rank_thread_options(recipe.launch);
  LocalWorld(static_cast<int>(ranks.count()), options).run([&](Communicator& communicator) {
    prepare_rank_thread();
    const c10::Device device = choose_device(recipe.cluster.device, communicator.rank());
    // Not owned: the world owns the communicator and outlives this call.
    const std::shared_ptr<Communicator> local(&communicator, [](Communicator*) {});
    weights.run(*connect_devices(local, CommunicationBackend::local, device, options.watchdog_seconds), device, memory,
                work);
  });
  return step;
}

void with_model_beside(const Recipe& recipe, const std::string& checkpoint,
                       const std::function<void(LocalModel&)>& work) {
  const StoredWeights weights(checkpoint, inference_layout(recipe, {}));
  weights.run(*make_solo_communicator(), choose_device(recipe.cluster.device), {}, work);
}

}  // namespace llmtrain
