// SPDX-License-Identifier: Apache-2.0
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstddef>
#include <optional>
#include <utility>

#include "core/graph/pass_setting.h"
#include "core/model/block_module.h"
#include "core/model/block_modules.h"
#include "core/model/layers/block_parameters.h"
#include "kernels/accumulation_type.h"
#include "kernels/cross_entropy.h"
#include "kernels/gemm.h"

namespace llmtrain {
namespace {

// Final norm, output projection and cross-entropy. The loss ends the model, so its gradient is known in the forward:
// chunk by chunk, rows become logits, losses, the logits' gradient (in the same memory), and immediately the gradients
// of the weight and of the normed input. The logits of the whole batch never exist (as in Liger Kernel's fused linear
// cross-entropy, Hsu et al., arXiv 2410.10989). A tensor rank computes the logits of its slice of the vocabulary, for
// all rows; the ranks exchange three numbers per row.
class HeadBlock final : public BlockModule {
 public:
  HeadBlock(const BlockParameters& parameters, const HeadSettings& settings);

  Output forward(Tensors inputs, const Batch& batch, const PassContext& pass) const override;
  Tensors backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                   std::unique_ptr<SavedActivations> saved) const override;

 private:
  struct Saved;
  // Logits of the rows that are asked for, on every tensor rank: [rows, V] in the compute type.
  at::Tensor logits(const at::Tensor& normed, const Batch& batch) const;
  // The loss of each row, 0 where it does not count. For training it also adds to the weight's gradient and sets
  // `dnormed`, which is null in evaluation.
  at::Tensor losses(const at::Tensor& normed, const Batch& batch, const PassContext& pass, at::Tensor* dnormed) const;
  // The same where all rows count.
  at::Tensor losses_of(const at::Tensor& normed, const at::Tensor& targets, double loss_gradient,
                       at::Tensor* dnormed) const;
  // For one chunk: this rank's logits, the losses (with a scale the logits' gradient replaces them), and the gradients
  // that follow from it.
  at::Tensor project(const at::Tensor& chunk) const;
  at::Tensor row_losses(at::Tensor& logits, const at::Tensor& targets, std::optional<double> gradient_scale) const;
  void add_weight_gradient(const at::Tensor& dlogits, const at::Tensor& chunk) const;
  at::Tensor input_gradient(const at::Tensor& dlogits) const;

  std::size_t term_;       // that it raises
  BoundParameter weight_;  // the head's own, or the token embedding, possibly of another stage
  TensorSplit split_;
  kernels::VocabularySlice slice_;
  std::int64_t columns_;  // of the slice, without padding
  NormLayer norm_;
};

struct HeadBlock::Saved : SavedActivations {
  at::Tensor x;
  NormLayer::Statistics statistics;
  at::Tensor dnormed;  // gradient of the loss at this rank's rows of the normed input

  void visit(const KeptTensorVisitor& visit) override {
    visit_all(visit, {&x, &dnormed});
    statistics.visit(visit);
  }
};

HeadBlock::HeadBlock(const BlockParameters& parameters, const HeadSettings& settings)
    : term_(parameters.block().losses.at(0)),
      weight_(parameters.bind("head.weight")),
      split_(parameters.split()),
      slice_{weight_.part().offset[0], settings.vocabulary},
      columns_(weight_.part().real_shape[0]),
      norm_(parameters.norm("final_norm", settings.norm)) {}

at::Tensor HeadBlock::project(const at::Tensor& chunk) const {
  // A rank may hold nothing but padding; it still takes part in the collectives.
  if (columns_ == 0) return at::empty({chunk.size(0), 0}, chunk.options());
  // Padding is not multiplied: its logits would enter the softmax.
  return kernels::linear(chunk, weight_.weight().narrow(0, 0, columns_), std::nullopt);
}

at::Tensor HeadBlock::row_losses(at::Tensor& logits, const at::Tensor& targets,
                                 std::optional<double> gradient_scale) const {
  if (split_.ranks() == 1) {
    return gradient_scale ? kernels::cross_entropy_forward_backward_(logits, targets, *gradient_scale)
                          : kernels::cross_entropy_forward(logits, targets);
  }
  // Three numbers per row are exchanged instead of the logits.
  const at::Tensor own = kernels::cross_entropy_statistics(logits, targets, slice_);
  const at::Tensor statistics =
      kernels::join_cross_entropy_statistics(split_.gather(own).view({split_.ranks(), own.size(0), own.size(1)}));
  if (gradient_scale) kernels::cross_entropy_backward_(logits, targets, slice_, statistics, *gradient_scale);
  return kernels::cross_entropy_losses(statistics);
}

void HeadBlock::add_weight_gradient(const at::Tensor& dlogits, const at::Tensor& chunk) const {
  if (weight_.is_frozen()) return;
  auto dweight = weight_.gradient();
  // The optimizer reads the padding's gradient as well; the first micro-batch must clear what the memory held.
  const std::int64_t padding = dweight.tensor.size(0) - columns_;
  if (padding > 0 && dweight.accumulation == kernels::Accumulation::overwrite)
    dweight.tensor.narrow(0, columns_, padding).zero_();
  if (columns_ == 0) return;
  at::Tensor real = dweight.tensor.narrow(0, 0, columns_);
  kernels::linear_backward_weight(dlogits, chunk, real, dweight.accumulation);
}

at::Tensor HeadBlock::input_gradient(const at::Tensor& dlogits) const {
  const at::Tensor weight = weight_.weight();
  if (columns_ == 0) return at::zeros({dlogits.size(0), weight.size(1)}, dlogits.options());
  return kernels::linear_backward_input(dlogits, weight.narrow(0, 0, columns_));
}

at::Tensor HeadBlock::losses(const at::Tensor& normed, const Batch& batch, const PassContext& pass,
                             at::Tensor* dnormed) const {
  const double scale = dnormed != nullptr ? pass.loss_gradients.at(term_) : 0;  // evaluation has none
  const at::Tensor& targets = batch.field(BatchField::targets);
  const at::Tensor& rows = batch.field(BatchField::counted_rows);
  if (!rows.defined()) return losses_of(normed, targets, scale, dnormed);
  // The logits of the other rows are never computed.
  at::Tensor of_rows;
  const at::Tensor counted = losses_of(normed.index_select(0, rows), targets.index_select(0, rows), scale,
                                       dnormed != nullptr ? &of_rows : nullptr);
  if (dnormed != nullptr) *dnormed = at::zeros_like(normed).index_copy_(0, rows, of_rows);
  return at::zeros({normed.size(0)}, counted.options()).index_copy_(0, rows, counted);
}

at::Tensor HeadBlock::losses_of(const at::Tensor& normed, const at::Tensor& targets, double loss_gradient,
                                at::Tensor* dnormed) const {
  // Losses are fp32 at least: in bf16 a mean of them would have two or three digits.
  at::Tensor losses = at::empty({normed.size(0)}, normed.options().dtype(kernels::accumulation_type(normed)));
  std::optional<double> gradient_scale;
  if (dnormed != nullptr) {
    gradient_scale = loss_gradient;
    *dnormed = at::empty_like(normed);
  }
  // Where there are prompts alone nothing counts; a gradient that no micro-batch writes is 0.
  if (normed.size(0) == 0) return losses;
  // The vocabulary is the rank's part with padding, so all tensor ranks have the same chunks and meet in the same
  // collectives.
  const ComputeDevice device = normed.is_cuda() ? ComputeDevice::cuda : ComputeDevice::cpu;
  const std::int64_t step = logits_chunk_rows(normed.size(0), weight_.part().shape[0], normed.element_size(), device);
  for (std::int64_t begin = 0; begin < normed.size(0); begin += step) {
    const std::int64_t rows = std::min(step, normed.size(0) - begin);
    const at::Tensor chunk = normed.narrow(0, begin, rows);
    at::Tensor logits = project(chunk);
    losses.narrow(0, begin, rows).copy_(row_losses(logits, targets.narrow(0, begin, rows), gradient_scale));
    if (dnormed == nullptr) continue;
    // Both gradients while the chunk is at hand: its logits are released before the next one is made.
    add_weight_gradient(logits, chunk);
    dnormed->narrow(0, begin, rows).copy_(input_gradient(logits));
  }
  return losses;
}

BlockModule::Output HeadBlock::forward(Tensors inputs, const Batch& batch, const PassContext& pass) const {
  const at::Tensor& x = inputs.front();
  auto saved = std::make_unique<Saved>();
  const at::Tensor normed = split_.whole_rows(norm_.forward(x, saved->statistics));
  Output output;
  if (pass.mode == PassMode::prediction) {
    output.logits = pass.returns_hidden_rows ? rows_asked_for(normed, batch) : logits(normed, batch);
    return output;
  }
  if (!pass.trains()) {
    output.losses = {{term_, losses(normed, batch, pass, nullptr)}};
    return output;
  }
  at::Tensor dnormed;
  output.losses = {{term_, losses(normed, batch, pass, &dnormed)}};
  // Each tensor rank has the gradient through its columns of the vocabulary only: the sum over the ranks is whole.
  saved->dnormed = split_.own_sum(std::move(dnormed));
  saved->x = x;
  output.saved = std::move(saved);
  return output;
}

Tensors HeadBlock::backward(Tensors, const Batch&, const PassContext&, std::unique_ptr<SavedActivations> kept) const {
  auto& saved = static_cast<Saved&>(*kept);
  // The norm adds to dx; the head has no residual connection whose gradient could be there already.
  at::Tensor dx = at::empty_like(saved.x).zero_();
  norm_.backward(saved.dnormed, saved.x, saved.statistics, dx);
  return {std::move(dx)};
}

at::Tensor HeadBlock::logits(const at::Tensor& normed, const Batch& batch) const {
  const at::Tensor slice = kernels::linear(rows_asked_for(normed, batch), weight_.weight(), std::nullopt);
  if (split_.ranks() == 1) return slice;
  // Gathering joins rows, so the slices are transposed; padding is at the end and is cut off.
  return split_.gather(slice.t()).narrow(0, 0, slice_.whole).t().contiguous();
}

}  // namespace

std::unique_ptr<BlockModule> module_of(const HeadSettings& settings, const BlockParameters& parameters,
                                       const StageOptions&, KeptExchanges*) {
  return std::make_unique<HeadBlock>(parameters, settings);
}

}  // namespace llmtrain
