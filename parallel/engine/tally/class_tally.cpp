// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/tally/class_tally.h"

#include <ATen/ops/argmax.h>

#include <cstddef>
#include <cstdint>

namespace llmtrain {
namespace {

std::vector<std::int64_t> numbers_of(const at::Tensor& tensor) {
  const at::Tensor host = tensor.to(at::kCPU, at::kLong).contiguous();
  const auto* const begin = host.const_data_ptr<std::int64_t>();
  return {begin, begin + host.numel()};
}

}  // namespace

ClassTally::ClassTally(const ModelRecipe& model) {
  if (!model.classifier || model.classifier->of == ClassifiedPart::span) return;
  classifier_ = model.classifier;
  counts_.emplace(classifier_->classes);
}

void ClassTally::add(const Batch& batch, const at::Tensor& logits) {
  if (!counts_ || !logits.defined()) return;
  const std::vector<std::int64_t> told = numbers_of(logits.argmax(-1));
  if (classifier_->of == ClassifiedPart::sequence) {
    const std::vector<std::int64_t> labels = numbers_of(batch.field(BatchField::label));
    counts_->add(labels, told);
    return;
  }
  const at::Tensor& counted = batch.field(BatchField::counted_rows);
  const std::vector<std::int64_t> rows = numbers_of(counted);
  const std::vector<std::int64_t> labels = numbers_of(batch.field(BatchField::targets).index_select(0, counted));
  // Rows are in their order: those of one sample are a run.
  const std::int64_t length = batch.sequences().length;
  for (std::size_t begin = 0, end = 0; begin < rows.size(); begin = end) {
    while (end < rows.size() && rows[end] / length == rows[begin] / length) ++end;
    counts_->add(std::span(labels).subspan(begin, end - begin), std::span(told).subspan(begin, end - begin));
  }
}

std::vector<Figure> ClassTally::figures(std::span<const double> numbers) const {
  if (!counts_) return {};
  ClassCounts sums(classifier_->classes);
  sums.add_numbers(numbers);
  return sums.figures();
}

}  // namespace llmtrain
