// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/body/body.h"

namespace llmtrain::body {

// Who makes and reads the tensors of a body, which outlives this.
class Uses {
 public:
  explicit Uses(const Body& body);

  std::optional<std::size_t> maker(TensorId tensor) const { return makers_[tensor]; }
  // How many operands of steps it is, and one more where it is an output.
  std::size_t readers(TensorId tensor) const { return readers_[tensor]; }
  // Whether one product reads it, and nothing else.
  bool is_factor(TensorId tensor) const { return is_factor_[tensor]; }

 private:
  std::vector<std::optional<std::size_t>> makers_;
  std::vector<std::size_t> readers_;
  std::vector<bool> is_factor_;
};

// A body of which steps are replaced by others with the same result.
class Rewriting {
 public:
  explicit Rewriting(const Body& body) : body_(body), replaced_(body.steps.size()), before_(body.steps.size()) {}

  // Takes out steps, in ascending order; what make() makes from here on stands where the last of them stood.
  void replace(const std::vector<std::size_t>& steps);
  // A new result, called `name` with a number that no other tensor has.
  TensorId make(const Primitive& primitive, std::vector<TensorId> inputs, std::vector<AxisId> axes,
                const std::string& name);
  // A result that there is, made otherwise.
  void make(const Primitive& primitive, std::vector<TensorId> inputs, TensorId output);

  // The body with the new steps, each checked, and without tensors that nothing makes any more. Tensors may have other
  // numbers than before.
  Body done() &&;

 private:
  Body body_;
  std::vector<bool> replaced_;
  std::vector<std::vector<Step>> before_;  // by step, what comes in its place
  std::size_t place_ = 0;
};

// The body without tensors that nothing makes, and with its results in the order of the steps. Others keep their order.
Body in_order_of_steps(Body body);

}  // namespace llmtrain::body
