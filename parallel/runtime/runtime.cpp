// SPDX-License-Identifier: Apache-2.0
#include <ATen/Version.h>
#include <torch/headeronly/version.h>

#include <cmath>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/base/printable.h"
#include "core/data/tokenizer.h"
#include "parallel/comm/solo_communicator.h"
#include "parallel/device/device.h"
#include "parallel/engine/inference.h"
#include "parallel/engine/model_state.h"
#include "parallel/runtime/calibrate.h"
#include "parallel/runtime/parts.h"
#include "parallel/runtime/run_ranks.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {
namespace {

// The recipe's model on one rank, regardless of the layout that trained it.
std::shared_ptr<const Layout> single_rank_layout(Recipe recipe) {
  // One micro-batch on one rank passes every rule of meshes, whatever the recipe says.
  recipe.parallel = {};
  recipe.pipeline = {};
  recipe.launch = {};
  recipe.cluster.nodes = 1;
  recipe.batch.global = recipe.batch.micro;
  return std::make_shared<const Layout>(Partition::make(recipe, 1));
}

// A model with a checkpoint's weights, without gradients and optimizer states.
class LoadedModel {
 public:
  LoadedModel(const Recipe& recipe, const std::string& folder)
      : checkpoint_(folder),
        communicator_(make_solo_communicator()),
        model_(single_rank_layout(recipe), *communicator_, choose_device(recipe.cluster.device),
               StateContents::weights) {
    checkpoint_.verify();
    load_weights(model_, checkpoint_);
  }

  LocalModel& model() { return model_; }
  std::int64_t step() const { return checkpoint_.state().step; }

 private:
  CheckpointReader checkpoint_;
  std::shared_ptr<Communicator> communicator_;
  LocalModel model_;
};

// The data to evaluate: the file that the caller names, else the recipe's validation data, else its training data.
std::vector<DataSource> evaluation_sources(const EvaluateRequest& request) {
  if (request.data) return {DataSource{*request.data, 1}};
  const DataRecipe& data = request.recipe.data;
  return data.validation.empty() ? data.train : data.validation;
}

class Runtime final : public RuntimeInterface {
 public:
  int run(const RunRequest& request) override { return static_cast<int>(run_ranks(request)); }

  EvaluateResult evaluate(const EvaluateRequest& request) override {
    prepare_process();
    const Recipe& recipe = request.recipe;
    const Dataset dataset(evaluation_sources(request), recipe.data.tokenizer, recipe.batch.sequence_length,
                          recipe.model.vocab_size, false, recipe.seed, "/data");
    LoadedModel loaded(recipe, request.checkpoint);
    const Evaluation evaluation = llmtrain::evaluate(loaded.model(), dataset, request.batches * recipe.batch.global);
    return {evaluation.loss, std::exp(evaluation.loss), evaluation.tokens, loaded.step()};
  }

  std::string sample(const SampleRequest& request) override {
    prepare_process();
    LoadedModel loaded(request.recipe, request.checkpoint);
    const GenerateOptions options{
        .tokens = request.tokens, .temperature = request.temperature, .top_k = request.top_k, .seed = request.seed};
    const TokenizerRecipe& tokenizer = request.recipe.data.tokenizer;
    const std::string prompt = request.prompt.empty() ? "\n" : request.prompt;
    return printable(decode(tokenizer, generate(loaded.model(), encode(tokenizer, prompt), options)));
  }

  void export_huggingface(const ExportRequest& request) override {
    // fp32, so that the export keeps the full precision of the checkpoint's master weights.
    Recipe recipe = request.recipe;
    recipe.precision.compute = DataType::fp32;
    LoadedModel loaded(recipe, request.checkpoint);
    save_huggingface(request.destination, loaded.model().graph(), named_weights(loaded.model()));
  }

  ClusterProfile calibrate(DeviceKind device, const ClusterProfile& base) override {
    prepare_process();
    return llmtrain::calibrate(device, base);
  }

  RuntimeVersions versions() override {
    return {.libtorch = TORCH_VERSION, .cpu = at::get_cpu_capability(), .cuda_device = describe_gpu()};
  }

  bool has_mpi() override { return has_mpi_part(); }
};

}  // namespace
}  // namespace llmtrain

extern "C" llmtrain::RuntimeInterface* llmtrain_runtime() {
  static llmtrain::Runtime runtime;
  return &runtime;
}
