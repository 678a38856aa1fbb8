// SPDX-License-Identifier: Apache-2.0
#include "core/huggingface/weight_source.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "core/checkpoint/stored_model.h"
#include "core/checkpoint/stored_scale.h"
#include "core/huggingface/tensor_dtype.h"
#include "core/huggingface/tensor_values.h"

namespace llmtrain {
namespace {

// 1 MiB in fp32: the cost of a call does not show, and a few copies of it stay small beside any model.
constexpr std::int64_t piece_elements = 1 << 18;

}  // namespace

at::Tensor NamedWeightSource::read(const Parameter& parameter, const SliceBox& box) const {
  at::Tensor part = weights_.at(parameter.name);
  for (std::size_t axis = 0; axis < box.shape.size(); ++axis)
    part = part.narrow(static_cast<std::int64_t>(axis), box.offset[axis], box.shape[axis]);
  return part.clone(at::MemoryFormat::Contiguous);
}

CheckpointWeights::CheckpointWeights(CheckpointReader checkpoint, const Graph& graph)
    : checkpoint_(std::move(checkpoint)) {
  require_weights(checkpoint_, graph);
  for (const Parameter& parameter : graph.parameters)
    if (holds(parameter)) stored_type(*checkpoint_.find(weights_name(checkpoint_, parameter)));
}

bool CheckpointWeights::holds(const Parameter& parameter) const {
  return checkpoint_.find(weights_name(checkpoint_, parameter)) != nullptr;
}

at::ScalarType CheckpointWeights::type(const Parameter& parameter) const {
  const std::string name = weights_name(checkpoint_, parameter);
  const at::ScalarType stored = stored_type(*checkpoint_.find(name));
  const bool is_scaled = checkpoint_.find(scale_name(name)) != nullptr;
  return is_scaled || stored == at::kFloat8_e4m3fn ? at::kFloat : stored;
}

at::Tensor CheckpointWeights::read(const Parameter& parameter, const SliceBox& box) const {
  const std::string name = weights_name(checkpoint_, parameter);
  const at::Tensor stored = at::empty(box.shape, at::dtype(stored_type(*checkpoint_.find(name))));
  checkpoint_.read_box(name, box, std::span(static_cast<std::byte*>(stored.data_ptr()), stored.nbytes()));
  at::Tensor values = stored.to(type(parameter));
  if (const auto scale = read_number(checkpoint_, scale_name(name))) values.div_(*scale);
  require_finite(values, checkpoint_.folder().string() + ": " + name);
  return values;
}

at::Tensor WatchedWeights::read(const Parameter& parameter, const SliceBox& box) const {
  at::Tensor values = weights_.read(parameter, box);
  const std::lock_guard lock(mutex_);
  read_ += values.numel();
  // Some formats need a parameter more than once.
  report_(std::min(1.0, static_cast<double>(read_) / static_cast<double>(elements_)));
  return values;
}

at::ScalarType common_type(const WeightSource& source, const Graph& graph) {
  const at::ScalarType first = source.type(graph.parameters.front());
  const bool is_common = std::all_of(graph.parameters.begin(), graph.parameters.end(),
                                     [&](const Parameter& parameter) { return source.type(parameter) == first; });
  return is_common ? first : at::kFloat;
}

SliceBox whole_box(const Parameter& parameter) {
  return {std::vector<std::int64_t>(parameter.shape.size(), 0), parameter.shape};
}

void visit_pieces(const WeightSource& source, const Parameter& parameter, std::optional<std::int64_t> expert,
                  at::ScalarType type, const std::function<void(const at::Tensor&)>& visit) {
  const std::vector<std::int64_t> shape(parameter.shape.begin() + (expert ? 1 : 0), parameter.shape.end());
  const std::int64_t elements = element_count(shape);
  for (std::int64_t begin = 0; begin < elements; begin += piece_elements)
    for (SliceBox box : boxes_of_range(shape, begin, std::min(begin + piece_elements, elements))) {
      if (expert) {
        box.offset.insert(box.offset.begin(), *expert);
        box.shape.insert(box.shape.begin(), 1);
      }
      visit(source.read(parameter, box).to(type));
    }
}

}  // namespace llmtrain
