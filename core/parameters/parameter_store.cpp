// SPDX-License-Identifier: Apache-2.0
#include "core/parameters/parameter_store.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <utility>

#include "kernels/fp8/parts.h"

namespace llmtrain {

ParameterStore::ParameterStore(const Graph& graph, std::span<const std::size_t> parameters, const ShardPlace& place)
    : written_(parameters.size(), false) {
  for (const std::size_t parameter : parameters) {
    frozen_.push_back(graph.parameters[parameter].is_frozen);
    position_.emplace(parameter, ranges_.size());
    ranges_.push_back({parameter});
  }
  move_to(graph, place);
}

void ParameterStore::move_to(const Graph& graph, const ShardPlace& place) {
  parts_.clear();
  std::int64_t end = 0;
  for (FlatRange& range : ranges_) {
    parts_.push_back(local_part(graph.parameters[range.parameter], place));
    // Without gaps, so that adjacent weights form one matrix.
    range.begin = end;
    end += parts_.back().elements();
    range.end = end;
  }
}

at::Tensor ParameterStore::view(const at::Tensor& flat, std::size_t first, std::size_t last) const {
  std::vector<std::int64_t> shape = part(first).shape;
  const FlatRange& begin = ranges_[position(first)];
  const FlatRange& end = ranges_[position(last)];
  // Parameters from first to last have rows of equal length, so joining them only adds rows.
  const std::int64_t row = part(first).elements() / shape[0];
  shape[0] = (end.end - begin.begin) / row;
  return flat.slice(0, begin.begin, end.end).view(shape);
}

at::Tensor ParameterStore::fused_weight(std::size_t first, std::size_t last) const {
  return kernels::widened(stored_weight(first, last));
}

void ParameterStore::attach_scaled_weights(at::Tensor flat, at::Tensor scales, at::ScalarType type) {
  weights_ = std::move(flat);
  scales_ = std::move(scales);
  widened_type_ = type;
  has_fp8_weights_ = weights_.scalar_type() == at::kFloat8_e4m3fn;
}

kernels::StoredMatrix ParameterStore::stored_weight(std::size_t first, std::size_t last) const {
  if (!weights_.defined()) return {kept_.at(first), {}, {}, weight_type()};
  if (!has_scaled_weights()) return {view(weights_, first, last), {}, {}, weight_type()};
  const auto begin = static_cast<std::int64_t>(position(first)), end = static_cast<std::int64_t>(position(last)) + 1;
  kernels::StoredMatrix stored{view(weights_, first, last), scales_.slice(0, begin, end), {}, widened_type_};
  const std::int64_t origin = ranges_[position(first)].begin;
  for (std::int64_t i = begin; i < end; ++i) {
    const FlatRange& range = ranges_[static_cast<std::size_t>(i)];
    stored.parts.push_back({range.begin - origin, range.end - origin, i - begin});
  }
  return stored;
}

at::ScalarType ParameterStore::weight_type() const {
  if (has_scaled_weights()) return widened_type_;
  return weights_.defined() ? weights_.scalar_type() : kept_.begin()->second.scalar_type();
}

void ParameterStore::keep(std::size_t first, std::size_t last) { kept_[first] = fused_weight(first, last).clone(); }

ParameterStore::GradientTarget ParameterStore::fused_gradient(std::size_t first, std::size_t last) {
  // Requested only at the first write.
  if (!gradients_.defined()) gradients_ = gradient_source_();
  // Fused parameters are always written together, so the first one's flag answers for all.
  const bool written = written_[position(first)];
  for (std::size_t i = position(first); i <= position(last); ++i) written_[i] = true;
  return {view(gradients_, first, last), written ? kernels::Accumulation::add : kernels::Accumulation::overwrite};
}

at::Tensor ParameterStore::written_gradient(std::size_t parameter) const {
  return gradients_.defined() && written_[position(parameter)] ? view(gradients_, parameter, parameter) : at::Tensor();
}

at::Tensor ParameterStore::added_gradient(std::size_t parameter) {
  if (is_frozen(parameter)) return at::zeros(part(parameter).shape, weight(parameter).options());
  GradientTarget target = gradient(parameter);
  // Zeroed at first use rather than all at once: kernels that can overwrite save the pass over memory.
  if (target.accumulation == kernels::Accumulation::overwrite) target.tensor.zero_();
  return target.tensor;
}

void ParameterStore::set_written(const std::vector<bool>& written) {
  written_ = written;
  const bool is_any = std::ranges::find(written_, true) != written_.end();
  if (is_any && !gradients_.defined()) gradients_ = gradient_source_();
}

at::Tensor ParameterStore::take_gradients() {
  if (!gradients_.defined()) gradients_ = gradient_source_();
  for (std::size_t i = 0; i < ranges_.size(); ++i)
    // A parameter that no micro-batch used has the gradient 0, not what the memory held before.
    if (!written_[i]) gradients_.slice(0, ranges_[i].begin, ranges_[i].end).zero_();
  // The next micro-batch writes to new memory while these are being reduced.
  at::Tensor taken = std::move(gradients_);
  drop_gradients();
  return taken;
}

void ParameterStore::drop_gradients() {
  written_.assign(written_.size(), false);
  gradients_.reset();
}

void ParameterStores::add(ParameterStore& store) {
  for (const FlatRange& range : store.ranges()) stores_.emplace(range.parameter, &store);
}

void BoundParameter::add_weight_gradient(const at::Tensor& dy, const at::Tensor& x) const {
  if (is_frozen()) return;
  auto target = gradient();
  kernels::linear_backward_weight(dy, x, target.tensor, target.accumulation);
}

void BoundParameter::add_bias_gradient(const at::Tensor& dy) const {
  if (is_frozen()) return;
  auto target = gradient();
  kernels::linear_backward_bias(dy, target.tensor, target.accumulation);
}

}  // namespace llmtrain
