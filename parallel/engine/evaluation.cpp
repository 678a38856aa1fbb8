// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/evaluation.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "parallel/engine/batch_loader.h"
#include "parallel/engine/stage_exchange.h"

namespace llmtrain {
namespace {

// Forward passes through the stages of all ranks, including their transfers.
class EvaluationPass {
 public:
  explicit EvaluationPass(LocalModel& model) : model_(model), exchange_(model.groups()) {}

  // The sum of the losses on the rank with the head, else 0. Without a micro-batch the rank only takes part in
  // gathering weights. Does not wait for its sends.
  double loss_sum(const std::optional<MicroBatch>& micro) {
    // One micro-batch at a time: without a backward nothing has to be kept, so there is no pipelining to schedule.
    exchange_.start(model_.stage_count(), 1);
    // Bounds the tensors in flight: a rank far ahead of its successor would otherwise fill its memory with sends.
    if (++passes_ % model_.groups().pipeline.ranks() == 0) exchange_.finish();
    double loss = 0;
    for (const std::size_t stage : model_.held_stages()) {
      if (model_.gathers_for_use()) model_.gather(stage);
      model_.finish_gather(stage);
      if (micro) loss += run(stage, *micro);
      if (model_.gathers_for_use()) model_.free(stage, LocalModel::FreeAfter::forward);
    }
    return loss;
  }

  void finish() { exchange_.finish(); }

 private:
  using Channel = StageExchange::Channel;

  double run(std::size_t stage, const MicroBatch& micro) {
    const PipelineParallel& pipeline = model_.groups().pipeline;
    const int ranks = pipeline.ranks(), position = pipeline.position();
    if (ranks > 1 && stage > 0) {
      // The sender's tensor has the same shape, because all pipeline ranks of a copy evaluate the same micro-batch.
      const BoundaryShape shape{micro.tokens.size(0), model_.graph().model.hidden_size,
                                at::TensorOptions(model_.device()).dtype(model_.compute_type())};
      exchange_.receive(Channel::activations, stage, 0, shape, (position + ranks - 1) % ranks);
    }
    at::Tensor output = model_.stage(stage).passes->forward(exchange_.take(Channel::activations, stage, 0), 0, micro,
                                                            ForwardMode::evaluation);
    if (model_.is_last(stage)) return output.sum(at::kDouble).item<double>();
    exchange_.put(Channel::activations, stage + 1, 0, std::move(output));
    if (ranks > 1) exchange_.send(Channel::activations, stage + 1, 0, (position + 1) % ranks);
    return 0;
  }

  LocalModel& model_;
  StageExchange exchange_;
  int passes_ = 0;
};

}  // namespace

Evaluation evaluate(LocalModel& model, const Dataset& dataset, std::int64_t samples) {
  const Recipe& recipe = model.recipe();
  const std::int64_t count = samples == 0 ? dataset.samples() : std::min(samples, dataset.samples());
  const DataRank rank = data_rank(model.groups(), recipe.batch.sequence_length);
  EvaluationPass pass(model);
  const std::int64_t micro = recipe.batch.micro;
  double sum = 0;
  // Every rank takes part in every round, with or without samples: gathering ZeRO-3 weights is collective.
  for (std::int64_t round = 0; round < count; round += micro * rank.ranks) {
    const std::int64_t first = round + micro * rank.position;
    std::optional<MicroBatch> samples_here;
    if (first < count) {
      const SampleRange range{first, std::min(micro, count - first), recipe.batch.sequence_length, rank.part};
      samples_here = load_micro_batch(dataset, range, model.device());
    }
    sum += pass.loss_sum(samples_here);
  }
  pass.finish();
  // All tensor ranks have the same loss: count it once.
  const double own = model.groups().tensor.position() == 0 ? sum : 0;
  const std::vector<double> sums = model.groups().exchange(std::array{own});
  const std::int64_t tokens = count * recipe.batch.sequence_length;
  return {std::accumulate(sums.begin(), sums.end(), 0.0) / static_cast<double>(tokens), tokens};
}

at::Tensor logits_of(LocalModel& model, const at::Tensor& tokens) {
  MicroBatch micro;
  // With sequence parallelism the rows must be a multiple of the tensor ranks: repeat the sequence as many times.
  const TensorParallel& tensor = model.groups().tensor;
  micro.batch = tensor.rows() == ActivationRows::split ? tensor.ranks() : 1;
  micro.tokens = tokens.to(model.device()).repeat({micro.batch});
  micro.sequence = tokens.size(0);
  at::Tensor x;
  const std::size_t last = model.stage_count() - 1;
  for (std::size_t stage = 0; stage < last; ++stage)
    x = model.stage(stage).passes->forward(std::move(x), 0, micro, ForwardMode::evaluation);
  const at::Tensor logits = model.stage(last).passes->logits(std::move(x), micro);
  return logits.narrow(0, 0, micro.sequence).to(at::kCPU, at::kFloat);
}

}  // namespace llmtrain
