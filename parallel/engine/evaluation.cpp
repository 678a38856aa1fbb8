// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/evaluation.h"

#include <algorithm>
#include <utility>

#include "parallel/engine/batch_loader.h"

namespace llmtrain {
namespace {

double loss_sum(LocalModel& model, const MicroBatch& micro) {
  at::Tensor x;
  for (auto& stage : model.stages()) x = stage.stage->forward(std::move(x), 0, micro, Pass::evaluation);
  return x.sum(at::kDouble).item<double>();
}

}  // namespace

Evaluation evaluate(LocalModel& model, const Dataset& dataset, const Recipe& recipe, std::int64_t samples) {
  const std::int64_t count = samples == 0 ? dataset.samples() : std::min(samples, dataset.samples());
  double sum = 0;
  for (std::int64_t first = 0; first < count; first += recipe.batch.micro) {
    const std::int64_t batch = std::min(recipe.batch.micro, count - first);
    sum += loss_sum(model, load_micro_batch(dataset, {first, batch, recipe.batch.sequence_length}, model.device()));
  }
  const std::int64_t tokens = count * recipe.batch.sequence_length;
  return {sum / static_cast<double>(tokens), tokens};
}

at::Tensor logits_of(LocalModel& model, const at::Tensor& tokens) {
  MicroBatch micro;
  micro.tokens = tokens.to(model.device());
  micro.batch = 1;
  micro.sequence = tokens.size(0);
  at::Tensor x;
  auto& stages = model.stages();
  for (std::size_t i = 0; i + 1 < stages.size(); ++i)
    x = stages[i].stage->forward(std::move(x), 0, micro, Pass::evaluation);
  return stages.back().stage->logits(std::move(x), micro).to(at::kCPU, at::kFloat);
}

}  // namespace llmtrain
