// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/ScalarType.h>

#include <cstdint>
#include <functional>
#include <map>
#include <mutex>
#include <optional>
#include <string>
#include <utility>

#include "core/checkpoint/checkpoint.h"
#include "core/checkpoint/tensor_slice.h"
#include "core/graph/graph.h"

namespace llmtrain {

// Where the weights of a Graph's parameters are read from, a box at a time: a model that is moved from one format to
// another is never in memory as a whole.
class WeightSource {
 public:
  virtual ~WeightSource() = default;

  // Whether it has the parameter; all have those of a model without adapters, but for heads (HuggingfaceWeights).
  virtual bool holds(const Parameter& parameter) const = 0;
  // The type that holds every value of the parameter exactly: fp32, bf16 or fp16.
  virtual at::ScalarType type(const Parameter& parameter) const = 0;
  // A copy of a box of the parameter, in the shape of the box and the type above, contiguous and on the CPU. Threads
  // may read at the same time. Throws Error(bad_data) where the source is damaged.
  virtual at::Tensor read(const Parameter& parameter, const SliceBox& box) const = 0;
};

// Whole parameters by name, fp32, bf16 or fp16, on the CPU.
using NamedWeights = std::map<std::string, at::Tensor>;

class NamedWeightSource final : public WeightSource {
 public:
  explicit NamedWeightSource(NamedWeights weights) : weights_(std::move(weights)) {}

  bool holds(const Parameter& parameter) const override { return weights_.contains(parameter.name); }
  at::ScalarType type(const Parameter& parameter) const override { return weights_.at(parameter.name).scalar_type(); }
  at::Tensor read(const Parameter& parameter, const SliceBox& box) const override;

 private:
  NamedWeights weights_;
};

// The weights of a checkpoint in their most precise form: its master weights where it has them; what is stored with a
// scale becomes fp32. What the checkpoint leaves out it does not hold: whole_weights()
// (core/huggingface/adapted_base.h) does.
class CheckpointWeights final : public WeightSource {
 public:
  // Reads the manifest alone, and no parameters that the graph lacks. Throws Error(bad_data) for one that is missing,
  // has another shape or is of a type that holds no weights. Whether files are intact is the caller's concern
  // (CheckpointReader::verify()).
  CheckpointWeights(CheckpointReader checkpoint, const Graph& graph);

  bool holds(const Parameter& parameter) const override;
  at::ScalarType type(const Parameter& parameter) const override;
  at::Tensor read(const Parameter& parameter, const SliceBox& box) const override;

 private:
  CheckpointReader checkpoint_;
};

// Passes on the weights of another source, and reports how much of a model has been read.
class WatchedWeights final : public WeightSource {
 public:
  using Report = std::function<void(double share)>;

  // The source outlives this object. `report` is called after each read, by one thread at a time, with the share of the
  // graph's elements that have been read so far, at most 1.
  WatchedWeights(const WeightSource& weights, const Graph& graph, Report report)
      : weights_(weights), elements_(graph.parameter_count()), report_(std::move(report)) {}

  bool holds(const Parameter& parameter) const override { return weights_.holds(parameter); }
  at::ScalarType type(const Parameter& parameter) const override { return weights_.type(parameter); }
  at::Tensor read(const Parameter& parameter, const SliceBox& box) const override;

 private:
  const WeightSource& weights_;
  std::int64_t elements_;
  Report report_;
  mutable std::mutex mutex_;
  mutable std::int64_t read_ = 0;
};

// The type that holds the values of all parameters: their common one, or fp32.
at::ScalarType common_type(const WeightSource& source, const Graph& graph);

// The box of all elements.
SliceBox whole_box(const Parameter& parameter);

// Calls `visit` with the elements of a parameter of `source` in row-major order, as contiguous tensors of `type` that
// take some megabytes at most. With `expert` these are the elements of one expert, an index on the first axis.
void visit_pieces(const WeightSource& source, const Parameter& parameter, std::optional<std::int64_t> expert,
                  at::ScalarType type, const std::function<void(const at::Tensor&)>& visit);

}  // namespace llmtrain
