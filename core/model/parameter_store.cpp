// SPDX-License-Identifier: Apache-2.0
#include "core/model/parameter_store.h"

#include "core/model/flat_memory.h"

namespace llmtrain {

ParameterStore::ParameterStore(const Graph& graph, std::span<const std::size_t> parameters, StoreTypes types,
                               const at::Device& device)
    : graph_(graph), written_(parameters.size(), false) {
  std::int64_t end = 0;
  for (const std::size_t parameter : parameters) {
    const std::int64_t begin = end;
    end += graph.parameters[parameter].elements();
    position_.emplace(parameter, ranges_.size());
    ranges_.push_back({parameter, begin, end});
  }
  master_ = make_flat_memory(end, at::kFloat, device);
  gradients_ = make_flat_memory(end, types.gradients, device);
  if (types.compute != at::kFloat) compute_copy_ = make_flat_memory(end, types.compute, device);
}

at::Tensor ParameterStore::view(const at::Tensor& flat, std::size_t first, std::size_t last) const {
  std::vector<std::int64_t> shape = graph_.parameters[first].shape;
  const FlatRange& begin = ranges_[position(first)];
  const FlatRange& end = ranges_[position(last)];
  const std::int64_t row = graph_.parameters[first].elements() / shape[0];
  shape[0] = (end.end - begin.begin) / row;
  return flat.slice(0, begin.begin, end.end).view(shape);
}

at::Tensor ParameterStore::weight(std::size_t parameter) const { return fused_weight(parameter, parameter); }

at::Tensor ParameterStore::fused_weight(std::size_t first, std::size_t last) const {
  return view(compute_copy_ ? *compute_copy_ : master_, first, last);
}

ParameterStore::GradientTarget ParameterStore::fused_gradient(std::size_t first, std::size_t last) {
  const bool written = written_[position(first)];
  for (std::size_t i = position(first); i <= position(last); ++i) written_[i] = true;
  return {view(gradients_, first, last), written ? kernels::Accumulation::add : kernels::Accumulation::overwrite};
}

at::Tensor ParameterStore::added_gradient(std::size_t parameter) {
  GradientTarget target = gradient(parameter);
  if (target.accumulation == kernels::Accumulation::overwrite) target.tensor.zero_();
  return target.tensor;
}

void ParameterStore::start_step() { written_.assign(written_.size(), false); }

void ParameterStore::finish_gradients() {
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    if (!written_[i]) gradients_.slice(0, ranges_[i].begin, ranges_[i].end).zero_();
    written_[i] = true;
  }
}

void ParameterStore::refresh_compute_copy() {
  if (compute_copy_) compute_copy_->copy_(master_);
}

}  // namespace llmtrain
