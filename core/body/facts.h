// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace llmtrain::body {

// What each primitive states of its steps. Links no LibTorch.

using AxisId = std::size_t;    // an index into Body::axes
using TensorId = std::size_t;  // an index into Body::tensors

// A labelled axis: tensors that have it have the same extent along it.
struct Axis {
  std::string name;
  std::int64_t extent = 0;

  bool operator==(const Axis&) const = default;
};

// What happens to a step when ranks, or one after another, take parts of an axis.
enum class AxisUse {
  independent,  // parts of the operands that have it give the part of the result, or of one without it all of that part
  summed,       // parts of the operands give results of the whole shape, whose sum is the result
  whole,        // each element of the result may need all of it
  window,       // a part of the result needs the same part of the operand and its neighbourhood
};

// Matrix products of [rows, inner] · [inner, columns], `batch` of them.
struct ProductSize {
  double rows = 0, columns = 0, inner = 0, batch = 1;

  // A multiply-add counts as two operations.
  double flops() const { return 2 * batch * rows * columns * inner; }
};

// What a step costs: the operations of its products, and the elements that it reads and writes.
struct Work {
  ProductSize product{};  // whose size decides about the speed; of what makes no product empty
  double forward_flops = 0, backward_flops = 0;
  double forward_elements = 0, backward_elements = 0;
  // Elements of the type of sums that are alive while it runs, beside operands, result and their gradients.
  double forward_temporaries = 0, backward_temporaries = 0;
  double forward_working = 0, backward_working = 0;  // likewise, of activations
};

// What the forward computes beside its result, for the backward.
struct Statistic {
  enum class Type { accumulated, computed, index };  // fp32 (float64 of float64); as activations; int64
  std::string name;
  double elements = 0;
  Type type = Type::accumulated;
  bool is_large = false;  // so that selective recompute runs the step again instead of keeping it
};

// What the backward reads. Parameters are no part of it: a pass is given them anew, as ZeRO-3 frees them in between.
struct Kept {
  std::vector<std::size_t> inputs{};  // by their place among the step's inputs
  bool output = false;
  std::vector<Statistic> statistics{};
};

class StepShape;

}  // namespace llmtrain::body
