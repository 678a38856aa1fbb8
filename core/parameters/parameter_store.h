// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

#include "core/graph/graph.h"
#include "core/graph/sharding.h"
#include "kernels/fp8/stored_matrix.h"
#include "kernels/gemm.h"

namespace llmtrain {

// Range of a parameter in the flat memory of its store, in elements.
struct FlatRange {
  std::size_t parameter = 0;  // index into Graph::parameters
  std::int64_t begin = 0;
  std::int64_t end = 0;
};

// The parameters of one group of a stage as the modules see them: views of flat memory, in the Graph's order without
// gaps, so that weights which are multiplied together (query, key, value; gate, up) are one matrix, and so that the
// optimizer, the collectives and the checkpoint work on long arrays. The memory is lent: its owner decides which part
// of it this rank keeps, and when all of it is present. On a tensor rank these are its parts of the parameters, with
// their padding: equally many elements at the same offsets on each rank.
class ParameterStore {
 public:
  ParameterStore(const Graph& graph, std::span<const std::size_t> parameters, const ShardPlace& place = {});

  // Becomes a store of the parts at another place. Nothing is lent, and no gradient is written.
  void move_to(const Graph& graph, const ShardPlace& place);

  // Views in the compute type, of scaled weights copies; the weights must be attached. `fused` gives consecutive
  // parameters of equal trailing shape as one tensor.
  at::Tensor weight(std::size_t parameter) const { return fused_weight(parameter, parameter); }
  at::Tensor fused_weight(std::size_t first, std::size_t last) const;

  // A gradient to be written by a kernel that can overwrite: `accumulation` says whether it already holds a sum.
  struct GradientTarget {
    at::Tensor tensor;
    kernels::Accumulation accumulation;
  };
  GradientTarget gradient(std::size_t parameter) { return fused_gradient(parameter, parameter); }
  GradientTarget fused_gradient(std::size_t first, std::size_t last);
  // The same for kernels that only add: zeroed at its first use. Of a frozen parameter memory that is forgotten.
  at::Tensor added_gradient(std::size_t parameter);
  // What has been written of it since take_gradients() or drop_gradients(); undefined where nothing has.
  at::Tensor written_gradient(std::size_t parameter) const;

  // Lends flat weights, at least elements() of them.
  void attach_weights(at::Tensor flat) { weights_ = std::move(flat); }
  // Lends flat weights, in fp16 or E4M3, with a scale per parameter, in the order of ranges(): weight = element /
  // scale. Modules then get copies in `type` instead of views. The scales, fp32 [ranges] on the same device, are powers
  // of two, and may change in place.
  void attach_scaled_weights(at::Tensor flat, at::Tensor scales, at::ScalarType type);
  void detach_weights() { weights_.reset(); }
  bool has_scaled_weights() const { return scales_.defined(); }
  bool has_fp8_weights() const { return has_fp8_weights_; }  // that is, scaled ones in E4M3
  // What weight() is made of: views of scaled weights as they are stored, with their scales, else the weight itself.
  kernels::StoredMatrix stored_weight(std::size_t first, std::size_t last) const;
  // The type of weight().
  at::ScalarType weight_type() const;
  // Keeps what fused_weight(first, last) gives readable after the weights are detached, as a copy, until release().
  void keep(std::size_t first, std::size_t last);
  void release(std::size_t first) { kept_.erase(first); }

  // Provides flat memory for gradients, at least elements() of it, when the first of them is written.
  using GradientSource = std::function<at::Tensor()>;
  void set_gradient_source(GradientSource source) { gradient_source_ = std::move(source); }
  // Which gradients have been written, in the order of ranges().
  const std::vector<bool>& written() const { return written_; }
  // That they have been, by work that was captured while these functions wrote them.
  void set_written(const std::vector<bool>& written);
  // The flat gradients written since the last call, zero where nothing was written. The next write overwrites, in new
  // memory of the source.
  at::Tensor take_gradients();
  // Discards what was written.
  void drop_gradients();

  // Frozen parameters have no gradients: only added_gradient() may be called for them.
  bool is_frozen(std::size_t parameter) const { return frozen_[position(parameter)]; }

  const std::vector<FlatRange>& ranges() const { return ranges_; }
  // The part of a parameter that this rank holds.
  const LocalPart& part(std::size_t parameter) const { return parts_[position(parameter)]; }
  std::int64_t elements() const { return ranges_.empty() ? 0 : ranges_.back().end; }

 private:
  std::size_t position(std::size_t parameter) const { return position_.at(parameter); }
  at::Tensor view(const at::Tensor& flat, std::size_t first, std::size_t last) const;

  std::vector<FlatRange> ranges_;
  std::vector<LocalPart> parts_;                           // of ranges_[i]
  std::vector<bool> frozen_;                               // whether ranges_[i] is
  std::unordered_map<std::size_t, std::size_t> position_;  // parameter → index into ranges_
  std::vector<bool> written_;                              // whether the gradient of ranges_[i] holds a value
  at::Tensor weights_, gradients_;                         // undefined while not attached
  at::Tensor scales_;                                      // undefined: the weights are not scaled
  at::ScalarType widened_type_ = at::kFloat;               // of the copies of scaled weights
  bool has_fp8_weights_ = false;
  std::unordered_map<std::size_t, at::Tensor> kept_;  // by the first parameter
  GradientSource gradient_source_;
};

// The stores of a rank by the parameters that they hold.
class ParameterStores {
 public:
  // The store outlives this.
  void add(ParameterStore& store);
  // Throws std::out_of_range where this rank holds no such parameter.
  ParameterStore& of(std::size_t parameter) const { return *stores_.at(parameter); }

 private:
  std::unordered_map<std::size_t, ParameterStore*> stores_;
};

// A parameter as a layer uses it, or consecutive ones that are used as one matrix. Cheap to copy; the store outlives
// it.
class BoundParameter {
 public:
  BoundParameter(ParameterStore& store, std::size_t first, std::size_t last)
      : store_(&store), first_(first), last_(last) {}

  at::Tensor weight() const { return store_->fused_weight(first_, last_); }
  at::ScalarType weight_type() const { return store_->weight_type(); }
  bool is_scaled() const { return store_->has_scaled_weights(); }  // weight() is then a copy
  bool is_fp8() const { return store_->has_fp8_weights(); }        // of numbers that E4M3 has
  kernels::StoredMatrix stored() const { return store_->stored_weight(first_, last_); }
  bool is_frozen() const { return store_->is_frozen(first_); }  // of one matrix all or none are
  ParameterStore::GradientTarget gradient() const { return store_->fused_gradient(first_, last_); }
  at::Tensor added_gradient() const { return store_->added_gradient(first_); }  // of one parameter
  // Adds the gradient of the weight of a product, dy = x · weightᵀ, or of the bias that was added to its rows; nothing
  // where it is frozen.
  void add_weight_gradient(const at::Tensor& dy, const at::Tensor& x) const;
  void add_bias_gradient(const at::Tensor& dy) const;
  const LocalPart& part() const { return store_->part(first_); }  // of the first

 private:
  ParameterStore* store_;
  std::size_t first_, last_;
};

}  // namespace llmtrain
