// SPDX-License-Identifier: Apache-2.0
#include "core/model/head_block.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <utility>

#include "kernels/cross_entropy.h"
#include "kernels/gemm.h"

namespace llmtrain {
namespace {

// Logits of one chunk: large enough that adding to the weight's gradient once a chunk costs little beside the products.
constexpr std::int64_t chunk_bytes = std::int64_t{128} << 20;

// Rows of each chunk: as few chunks as fit, of equal size.
std::int64_t chunk_rows(std::int64_t rows, std::int64_t vocabulary, std::int64_t element_size) {
  const std::int64_t most = std::max<std::int64_t>(1, chunk_bytes / (vocabulary * element_size));
  const std::int64_t chunks = (rows + most - 1) / most;
  return (rows + chunks - 1) / chunks;
}

template <class Function>
void for_chunks(const at::Tensor& normed, std::int64_t vocabulary, Function function) {
  const std::int64_t rows = normed.size(0);
  const std::int64_t step = chunk_rows(rows, vocabulary, normed.element_size());
  for (std::int64_t begin = 0; begin < rows; begin += step) function(begin, std::min(step, rows - begin));
}

at::Tensor empty_losses(const at::Tensor& normed) {
  const auto type = normed.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::empty({normed.size(0)}, normed.options().dtype(type));
}

}  // namespace

struct HeadBlock::Saved : SavedActivations {
  at::Tensor x;
  NormLayer::Statistics statistics;
  at::Tensor dnormed;  // gradient of the loss at the normed input
};

HeadBlock::HeadBlock(const BlockParameters& parameters, ParameterStore& weight_store, std::size_t weight)
    : weight_store_(weight_store),
      weight_(weight),
      norm_(parameters.norm(ParameterRole::final_norm_weight, ParameterRole::final_norm_bias)) {}

at::Tensor HeadBlock::losses(const at::Tensor& normed, const MicroBatch& micro) const {
  const at::Tensor weight = weight_store_.weight(weight_);
  at::Tensor losses = empty_losses(normed);
  for_chunks(normed, weight.size(0), [&](std::int64_t begin, std::int64_t rows) {
    const at::Tensor logits = kernels::linear(normed.narrow(0, begin, rows), weight, std::nullopt);
    losses.narrow(0, begin, rows).copy_(kernels::cross_entropy_forward(logits, micro.targets.narrow(0, begin, rows)));
  });
  return losses;
}

at::Tensor HeadBlock::losses_and_gradient(const at::Tensor& normed, const MicroBatch& micro,
                                          at::Tensor& dnormed) const {
  const at::Tensor weight = weight_store_.weight(weight_);
  at::Tensor losses = empty_losses(normed);
  dnormed = at::empty_like(normed);
  for_chunks(normed, weight.size(0), [&](std::int64_t begin, std::int64_t rows) {
    const at::Tensor chunk = normed.narrow(0, begin, rows);
    at::Tensor logits = kernels::linear(chunk, weight, std::nullopt);
    losses.narrow(0, begin, rows)
        .copy_(
            kernels::cross_entropy_forward_backward_(logits, micro.targets.narrow(0, begin, rows), micro.loss_scale));
    auto dweight = weight_store_.gradient(weight_);
    kernels::linear_backward_weight(logits, chunk, dweight.tensor, dweight.accumulation);
    dnormed.narrow(0, begin, rows).copy_(kernels::linear_backward_input(logits, weight));
  });
  return losses;
}

BlockModule::Output HeadBlock::forward(const at::Tensor& x, const MicroBatch& micro, Pass pass) const {
  auto saved = std::make_unique<Saved>();
  const at::Tensor normed = norm_.forward(x, saved->statistics);
  if (pass == Pass::evaluation) return {losses(normed, micro), nullptr};
  at::Tensor result = losses_and_gradient(normed, micro, saved->dnormed);
  saved->x = x;
  return {std::move(result), std::move(saved)};
}

at::Tensor HeadBlock::backward(at::Tensor, const MicroBatch&, std::unique_ptr<SavedActivations> kept) const {
  auto& saved = static_cast<Saved&>(*kept);
  at::Tensor dx = at::empty_like(saved.x).zero_();
  norm_.backward(saved.dnormed, saved.x, saved.statistics, dx);
  return dx;
}

at::Tensor HeadBlock::logits(const at::Tensor& x) const {
  NormLayer::Statistics statistics;
  return kernels::linear(norm_.forward(x, statistics), weight_store_.weight(weight_), std::nullopt);
}

}  // namespace llmtrain
