// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/evaluation.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "parallel/engine/batch_loader.h"

namespace llmtrain {
namespace {

// Without a micro-batch the rank only takes its part in bringing the weights here.
double loss_sum(LocalModel& model, const std::optional<MicroBatch>& micro) {
  at::Tensor x;
  for (std::size_t i = 0; i < model.stages().size(); ++i) {
    LocalModel::StageState& stage = model.stages()[i];
    if (model.gathers_for_use()) model.gather(i);
    stage.parameters->finish_gather();
    if (micro) x = stage.stage->forward(std::move(x), 0, *micro, Pass::evaluation);
    if (model.gathers_for_use()) model.free(i, LocalModel::FreeAfter::forward);
  }
  return micro ? x.sum(at::kDouble).item<double>() : 0;
}

}  // namespace

Evaluation evaluate(LocalModel& model, const Dataset& dataset, const Recipe& recipe, std::int64_t samples) {
  const std::int64_t count = samples == 0 ? dataset.samples() : std::min(samples, dataset.samples());
  const DataParallel& ranks = model.ranks();
  const std::int64_t micro = recipe.batch.micro;
  double sum = 0;
  for (std::int64_t round = 0; round < count; round += micro * ranks.ranks()) {
    const std::int64_t first = round + micro * ranks.position();
    std::optional<MicroBatch> own;
    if (first < count) {
      const SampleRange range{first, std::min(micro, count - first), recipe.batch.sequence_length};
      own = load_micro_batch(dataset, range, model.device());
    }
    sum += loss_sum(model, own);
  }
  const std::vector<double> sums = ranks.exchange(std::array{model.tensor().position() == 0 ? sum : 0});
  const std::int64_t tokens = count * recipe.batch.sequence_length;
  return {std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(tokens), tokens};
}

at::Tensor logits_of(LocalModel& model, const at::Tensor& tokens) {
  MicroBatch micro;
  // As often as there are tensor ranks, so that these may split the rows whatever the length.
  micro.batch = model.tensor().ranks();
  micro.tokens = tokens.to(model.device()).repeat({micro.batch});
  micro.sequence = tokens.size(0);
  at::Tensor x;
  auto& stages = model.stages();
  for (std::size_t i = 0; i + 1 < stages.size(); ++i)
    x = stages[i].stage->forward(std::move(x), 0, micro, Pass::evaluation);
  const at::Tensor logits = stages.back().stage->logits(std::move(x), micro);
  return logits.narrow(0, 0, micro.sequence).to(at::kCPU, at::kFloat);
}

}  // namespace llmtrain
