// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>
#include <c10/core/Storage.h>

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/body/kept_tensors.h"
#include "core/body/run/steps.h"

namespace llmtrain::body {

// The parameters of a body, wherever they are. They are asked for at the step that reads them, and held no longer.
class BodyParameters {
 public:
  virtual ~BodyParameters() = default;

  // Shaped as in the body, in the type of the activations.
  virtual at::Tensor weight(TensorId parameter) const = 0;
  // `gradient` is what one step that reads it contributes: shaped as the weight, in the type of sums, of any strides.
  virtual void add_gradient(TensorId parameter, const at::Tensor& gradient) = 0;
};

// What a body keeps between its passes: kept_tensors(), and undefined tensors in all other places.
struct BodyTensors {
  std::vector<at::Tensor> tensors;                  // by TensorId
  std::vector<std::vector<at::Tensor>> statistics;  // by step
};

// Memory of a tensor that may be gone.
using WeakStorage = c10::weak_intrusive_ptr<c10::StorageImpl>;

// Runs a body, forward and backward, step by step. The backward makes again what it reads and was not kept, where it
// comes to it.
class BodyRun {
 public:
  // `site_of`: the key of what is drawn at random at a place of this name.
  BodyRun(Body body, Keeping keeping, const std::function<std::uint64_t(const std::string&)>& site_of);

  const Body& body() const { return body_; }

  // What both passes are given, each in the order of the body: its inputs to the forward, and its fields.
  struct Output {
    std::vector<at::Tensor> values;  // of Body::outputs
    BodyTensors kept;                // empty unless the pass trains
  };
  // Throws Error(internal_error) where a tensor's shape is not that of the body.
  Output forward(const std::vector<at::Tensor>& inputs, const std::vector<at::Tensor>& fields,
                 const BodyParameters& parameters, const BodyPass& pass) const;
  // `gradients`: of the outputs; undefined: zero. None is held longer than a step reads it. Returns those of the
  // inputs, in new memory each.
  std::vector<at::Tensor> backward(std::vector<at::Tensor> gradients, BodyTensors kept,
                                   const std::vector<at::Tensor>& fields, BodyParameters& parameters,
                                   const BodyPass& pass) const;

  // f(name, tensor) for all that is kept, with the names of kept_tensors().
  void visit(const BodyTensors& kept, const std::function<void(const std::string&, const at::Tensor&)>& f) const;

 private:
  class Passage;

  // After the backward of a step: what no earlier one reads.
  void release_after(std::size_t step, BodyTensors& at_hand) const;
  std::vector<at::Tensor> input_gradients(const std::vector<at::Tensor>& of_tensors,
                                          const std::vector<at::Tensor>& inputs,
                                          const std::vector<WeakStorage>& given) const;

  Body body_;
  std::function<std::uint64_t(const std::string&)> site_of_;
  std::vector<KeptTensor> kept_;                    // with `keeping`
  std::vector<std::size_t> last_use_;               // by tensor, the last step of the forward that reads it
  std::vector<std::uint64_t> sites_;                // by step
  std::vector<std::size_t> maker_;                  // by tensor, the step that makes it
  std::vector<bool> is_passed_on_;                  // by tensor, whether one forward alone reads it, and no backward
  std::vector<bool> keeps_tensor_;                  // by tensor
  std::vector<std::vector<bool>> keeps_statistic_;  // by step
};

}  // namespace llmtrain::body
