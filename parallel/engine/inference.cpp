// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/inference.h"

#include <ATen/ops/scalar_tensor.h>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "kernels/host_copy.h"
#include "parallel/comm/stop_agreement.h"
#include "parallel/device/transfers.h"
#include "parallel/engine/data/batch_loader.h"
#include "parallel/engine/forward_pass.h"
#include "parallel/engine/tally/class_tally.h"
#include "parallel/engine/tally/span_tally.h"

namespace llmtrain {
namespace {

PassInput evaluated(Batch batch, ExpertDrops drops) {
  PassContext context{.mode = PassMode::evaluation};
  context.keeps_all_tokens = drops == ExpertDrops::none;
  return {std::move(batch), std::move(context)};
}

// Evaluates the first `count` samples; each rank has the sums of the losses of those rows that it has computed, by
// term, its counts of classes and the spans that it has found. Collective.
Evaluation evaluation_of(const LocalModel& model, const SampleSource& data, std::int64_t count,
                         const std::vector<at::Tensor>& sums, const ClassTally& classes, const SpanTally& spans) {
  const std::span<const LossTerm> terms = model.graph().row_losses();
  // All tensor ranks have the same losses: count them once.
  const bool counts = model.groups().tensor.position() == 0;
  std::vector<double> own = read_numbers(sums);
  std::ranges::copy(classes.numbers(), std::back_inserter(own));
  const std::size_t before_spans = own.size();
  std::ranges::copy(spans.numbers(), std::back_inserter(own));
  if (!counts) std::ranges::fill(own, 0);
  const std::vector<double> all = model.groups().exchange(own);
  std::vector<double> total(own.size());
  for (std::size_t i = 0; i < all.size(); ++i) total[i % own.size()] += all[i];
  Evaluation evaluation;
  const std::span<const double> counted(total);
  evaluation.figures = classes.figures(counted.subspan(terms.size(), before_spans - terms.size()));
  std::ranges::copy(spans.figures(counted.subspan(before_spans)), std::back_inserter(evaluation.figures));
  for (std::size_t term = 0; term < terms.size(); ++term) {
    const double sum = total[term];
    const double value = sum / data.weight(term, 0, count);
    evaluation.loss += terms[term].coefficient * value;
    evaluation.terms.push_back({terms[term].name, value});
  }
  evaluation.tokens = static_cast<std::int64_t>(data.weight(0, 0, count));
  return evaluation;
}

}  // namespace

Evaluation evaluate(LocalModel& model, const SampleSource& data, std::int64_t samples) {
  return *evaluate(model, data, samples, [](double) { return false; });
}

std::optional<Evaluation> evaluate(LocalModel& model, const SampleSource& data, std::int64_t samples,
                                   const EvaluationWatch& watch, ExpertDrops drops) {
  const Recipe& recipe = model.recipe();
  const std::int64_t count = samples == 0 ? data.samples() : std::min(samples, data.samples());
  const DataRank rank = data_rank(model.groups(), recipe.batch.sequence_length, model.fields());
  ForwardPass pass(model);
  const std::int64_t micro = recipe.batch.micro;
  // By term of rows. Where they are computed: read once, at the end.
  std::vector<at::Tensor> sums(model.graph().row_losses().size(), at::scalar_tensor(0, at::kDouble));
  ClassTally classes(recipe.model);
  SpanTally spans(recipe, data, count);
  RoundAhead ahead(model.device());
  StopAgreement agreement(model.groups().communicator());
  // Every rank takes part in every round, with or without samples: gathering ZeRO-3 weights is collective.
  for (std::int64_t round = 0; round < count; round += micro * rank.ranks) {
    const double share = static_cast<double>(round) / static_cast<double>(count);
    if (agreement.ends([&] {
          pass.finish();  // so that no send is under way beside the exchange
          return watch(share);
        })) {
      pass.finish();
      return std::nullopt;
    }
    const std::int64_t first = round + micro * rank.position;
    std::optional<PassInput> input;
    if (first < count)
      input = evaluated(load_samples(data, rank, first, std::min(micro, count - first), model.device()), drops);
    // Experts are shared in every layer, so all ranks that hold them have to pass through it, if with other samples.
    const bool only_helps = !input && recipe.model.moe && model.layout().mesh().expert_parts() > 1;
    if (only_helps) input = evaluated(load_samples(data, rank, 0, 1, model.device()), drops);
    const StagePasses::Output output = pass.run(input);
    for (const auto& [term, rows] : output.losses)
      if (!only_helps) sums[term] = rows.sum(at::kDouble).add_(sums[term]);
    if (input && !only_helps) {
      classes.add(input->batch, output.logits);
      spans.add(first, input->batch, output.logits);
    }
    ahead.end_round();
  }
  pass.finish();
  return evaluation_of(model, data, count, sums, classes, spans);
}

at::Tensor logits_of(LocalModel& model, const at::Tensor& tokens) {
  // With sequence parallelism the rows must be a multiple of the tensor ranks: repeat the sequence as many times.
  const TensorParallel& tensor = model.groups().tensor;
  const std::int64_t count = tensor.rows() == ActivationRows::split ? tensor.ranks() : 1, length = tokens.size(0);
  PassInput input{{.fields = {}, .rows = {{.count = count, .length = length}}}, {.mode = PassMode::prediction}};
  input.batch.field(BatchField::token_ids) = kernels::to_device(tokens.repeat({count}), model.device());
  ForwardPass pass(model);
  const at::Tensor logits = pass.run(input).logits;
  pass.finish();
  return read_floats(logits.defined() ? logits.narrow(0, 0, length) : logits);
}

}  // namespace llmtrain
