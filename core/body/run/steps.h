// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/body/run/attention_memory.h"
#include "core/body/step_shape.h"
#include "kernels/attention/row_documents.h"

namespace llmtrain::body {

// What a pass through a body depends on besides its tensors.
struct BodyPass {
  bool trains = true;  // else there is no dropout
  std::int64_t seed = 0;
  std::int64_t step = 0;
  std::int64_t first_sample = 0;  // index within the global batch of what is first along the first axis
  double label_smoothing = 0;     // of the targets of cross-entropies
  // The documents of the sequences along an axis of tokens, to which attention keeps; of keys of another axis as many
  // as of the queries'. An axis that is not named has one document in each sequence.
  struct Documents {
    AxisId tokens = 0;
    kernels::RowDocuments documents{};
  };
  std::vector<Documents> documents{};
  // What attention remembers, of causal attention and of attention to other rows; null: nothing. The pass has no
  // backward then, and in place of a bias's keys there are those that are remembered.
  AttentionMemory* memory = nullptr;
};

struct StepContext {
  const StepShape& shape;
  const BodyPass& pass;
  std::uint64_t site = 0;  // of what the step draws at random
  // Those of steps within the step, by name.
  const std::function<std::uint64_t(const std::string&)>* site_of = nullptr;
  // Takes what one piece of the step contributes to the gradient of the parameter at a place; null: the step returns
  // its gradients whole.
  const std::function<void(std::size_t, const at::Tensor&)>* add_gradient = nullptr;
};

// Shaped as the body says, of any strides. A backward is given what kept() names, parameters and fields.
struct StepTensors {
  std::vector<at::Tensor> inputs;  // by place
  at::Tensor output{};
  std::vector<at::Tensor> statistics{};
};

struct StepResult {
  at::Tensor output;  // perhaps a view of an input
  std::vector<at::Tensor> statistics{};
};

// The gradients of a step's inputs, by place; undefined where there is none. Those of parameters are in the type of
// sums, as they are added up; others in that of dy, and perhaps dy itself or a view of it.
using StepGradients = std::vector<at::Tensor>;

// Each primitive's arithmetic: forward, and backward for the gradient dy of the result. No graph is recorded.
StepResult forward(const Product& product, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Elementwise& elementwise, const StepTensors& tensors, const StepContext& context);
StepResult forward(const ElementwiseChain& chain, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Softmax& softmax, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Norm& norm, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Reduce& reduce, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Gather& gather, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Rearrange& rearrange, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Join& join, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Dropout& dropout, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Convolution& convolution, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Pool& pool, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Attention& attention, const StepTensors& tensors, const StepContext& context);
StepResult forward(const CrossEntropy& cross_entropy, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Cholesky& cholesky, const StepTensors& tensors, const StepContext& context);
StepResult forward(const TriangularSolve& solve, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Diagonal& diagonal, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Smallest& smallest, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Take& take, const StepTensors& tensors, const StepContext& context);
StepResult forward(const Chunked& chunked, const StepTensors& tensors, const StepContext& context);

StepGradients backward(const Product& product, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Elementwise& elementwise, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const ElementwiseChain& chain, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Softmax& softmax, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Norm& norm, const at::Tensor& dy, const StepTensors& tensors, const StepContext& context);
StepGradients backward(const Reduce& reduce, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Gather& gather, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Rearrange& rearrange, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Join& join, const at::Tensor& dy, const StepTensors& tensors, const StepContext& context);
StepGradients backward(const Dropout& dropout, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Convolution& convolution, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Pool& pool, const at::Tensor& dy, const StepTensors& tensors, const StepContext& context);
StepGradients backward(const Attention& attention, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const CrossEntropy& cross_entropy, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Cholesky& cholesky, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const TriangularSolve& solve, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Diagonal& diagonal, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Smallest& smallest, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);
StepGradients backward(const Take& take, const at::Tensor& dy, const StepTensors& tensors, const StepContext& context);
StepGradients backward(const Chunked& chunked, const at::Tensor& dy, const StepTensors& tensors,
                       const StepContext& context);

}  // namespace llmtrain::body
