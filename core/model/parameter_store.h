// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"
#include "kernels/gemm.h"

namespace llmtrain {

struct StoreTypes {
  at::ScalarType compute = at::kFloat;    // what the modules multiply with
  at::ScalarType gradients = at::kFloat;  // accumulation
};

// A parameter's place in the flat memory of its store, in elements.
struct FlatRange {
  std::size_t parameter = 0;  // index into Graph::parameters
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// The parameters of one stage in flat memory, back to back in the Graph's order without padding, so that weights which
// are multiplied together (query, key, value; gate, up) are one matrix, and so that the optimizer and the checkpoint
// see long arrays. Master weights are fp32; with another compute type there is a rounded copy for the modules.
class ParameterStore {
 public:
  ParameterStore(const Graph& graph, std::span<const std::size_t> parameters, StoreTypes types,
                 const at::Device& device);

  // Views in the compute type. `fused` gives consecutive parameters of equal trailing shape as one tensor.
  at::Tensor weight(std::size_t parameter) const;
  at::Tensor fused_weight(std::size_t first, std::size_t last) const;

  // A gradient to be written by a kernel that can overwrite: `accumulation` says whether this step already wrote it.
  struct GradientTarget {
    at::Tensor tensor;
    kernels::Accumulation accumulation;
  };
  GradientTarget gradient(std::size_t parameter) { return fused_gradient(parameter, parameter); }
  GradientTarget fused_gradient(std::size_t first, std::size_t last);
  // The same for kernels that only add: zeroed at the step's first use.
  at::Tensor added_gradient(std::size_t parameter);

  // Forgets the gradients: the next write of each overwrites.
  void start_step();
  // Zeroes what no micro-batch wrote, so that the flat gradients are whole.
  void finish_gradients();

  const std::vector<FlatRange>& ranges() const { return ranges_; }
  bool contains(std::size_t parameter) const { return position_.count(parameter) != 0; }
  std::int64_t elements() const { return master_.numel(); }
  const at::Tensor& master() const { return master_; }        // [elements] fp32
  const at::Tensor& gradients() const { return gradients_; }  // [elements]
  // The copy for the modules; none when they use the master weights themselves.
  const std::optional<at::Tensor>& compute_copy() const { return compute_copy_; }
  // Rounds the master weights into the copy: after they were set from outside.
  void refresh_compute_copy();

 private:
  std::size_t position(std::size_t parameter) const { return position_.at(parameter); }
  at::Tensor view(const at::Tensor& flat, std::size_t first, std::size_t last) const;

  const Graph& graph_;
  std::vector<FlatRange> ranges_;
  std::unordered_map<std::size_t, std::size_t> position_;  // parameter → index into ranges_
  std::vector<bool> written_;                              // this step's gradient of ranges_[i] holds something
  at::Tensor master_, gradients_;
  std::optional<at::Tensor> compute_copy_;
};

}  // namespace llmtrain
