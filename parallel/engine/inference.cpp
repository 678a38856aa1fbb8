// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/inference.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <numeric>
#include <utility>

#include "kernels/philox.h"
#include "parallel/engine/batch_loader.h"
#include "parallel/engine/stage_exchange.h"

namespace llmtrain {
namespace {

// Forward passes through the stages of all ranks, including their transfers.
class EvaluationPass {
 public:
  explicit EvaluationPass(LocalModel& model) : model_(model), exchange_(model) {}

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
    // The sender's tensor has as many tokens, because all pipeline ranks of a copy evaluate the same micro-batch.
    if (ranks > 1 && stage > 0)
      exchange_.receive(Channel::activations, stage, 0, micro.tokens.size(0), (position + ranks - 1) % ranks);
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

// Candidates from the most to the least likely; ties keep the order of their ids, so that results are reproducible.
std::vector<std::int64_t> ranked_candidates(const float* logits, std::int64_t vocabulary, std::int64_t top_k) {
  std::vector<std::int64_t> ids(static_cast<std::size_t>(vocabulary));
  std::iota(ids.begin(), ids.end(), 0);
  std::stable_sort(ids.begin(), ids.end(), [&](std::int64_t a, std::int64_t b) { return logits[a] > logits[b]; });
  if (top_k > 0 && top_k < vocabulary) ids.resize(static_cast<std::size_t>(top_k));
  return ids;
}

double uniform(std::int64_t seed, std::int64_t position) {
  // Counter-based, so that a token's draw depends only on seed and position. 53 random bits fill a double in [0, 1).
  const auto bits = kernels::philox(static_cast<std::uint64_t>(seed), static_cast<std::uint64_t>(position), 0);
  return static_cast<double>((std::uint64_t{bits[0]} << 21) ^ (bits[1] >> 11)) / static_cast<double>(1ULL << 53);
}

std::int64_t choose(const float* logits, std::int64_t vocabulary, const GenerateOptions& options,
                    std::int64_t position) {
  const auto candidates = ranked_candidates(logits, vocabulary, options.top_k);
  if (options.temperature == 0) return candidates.front();
  std::vector<double> weights;
  for (const std::int64_t id : candidates)
    // Relative to the largest logit, so that nothing overflows.
    weights.push_back(std::exp((logits[id] - logits[candidates.front()]) / options.temperature));
  double rest = uniform(options.seed, position) * std::accumulate(weights.begin(), weights.end(), 0.0);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    rest -= weights[i];
    if (rest < 0) return candidates[i];
  }
  // Rounding may leave a rest after the last candidate.
  return candidates.back();
}

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
    if (first < count)
      samples_here = load_micro_batch(dataset, rank, first, std::min(micro, count - first), model.device());
    // Experts are shared in every layer, so all ranks that hold them have to pass through it, if with other samples.
    const bool only_helps = !samples_here && model.layout().mesh().expert > 1;
    if (only_helps) samples_here = load_micro_batch(dataset, rank, 0, 1, model.device());
    const double loss = pass.loss_sum(samples_here);
    if (!only_helps) sum += loss;
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

std::vector<std::int64_t> generate(LocalModel& model, std::vector<std::int64_t> prompt,
                                   const GenerateOptions& options) {
  const auto start = std::chrono::steady_clock::now();
  std::vector<std::int64_t> tokens = std::move(prompt);
  const std::int64_t window = model.graph().model.max_sequence_length;
  for (std::int64_t i = 0; i < options.tokens; ++i) {
    if (options.time_limit && std::chrono::steady_clock::now() - start > *options.time_limit) break;
    const auto length = std::min(window, static_cast<std::int64_t>(tokens.size()));
    const at::Tensor context = at::from_blob(tokens.data() + tokens.size() - length, {length}, at::kLong);
    const at::Tensor logits = logits_of(model, context);
    const float* last = logits.data_ptr<float>() + (length - 1) * logits.size(1);
    tokens.push_back(choose(last, logits.size(1), options, i));
  }
  return tokens;
}

}  // namespace llmtrain
