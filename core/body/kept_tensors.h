// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "core/body/body.h"

namespace llmtrain::body {

// How much a body keeps between its passes; the backward makes the rest again, tensor by tensor. Who prices a body and
// who runs it read the same rules here.
enum class Keeping {
  all,     // whatever the backward reads
  costly,  // of it what takes a product to make, and what cannot be made again of that and the inputs
  inputs,  // the body's inputs alone
};

// The inputs are kept always, and in place of views what they look at. Parameters and fields are given to both passes,
// and never kept.
struct KeptTensor {
  std::string name;                // of the tensor, or "norm_1.rstd" of a statistic
  std::optional<TensorId> tensor;  // none: a statistic of `step`
  std::size_t statistic = 0;       // which of them
  std::size_t step = 0;            // the first that reads it in its backward, after which it goes
  double elements = 0;
  Statistic::Type type = Statistic::Type::computed;
  Keeping through = Keeping::all;  // the last of the values above with which it is kept
};

// Ascending by step.
std::vector<KeptTensor> kept_tensors(const Body& body);

// By tensor, that in whose memory it lies: of views another one, else itself.
std::vector<TensorId> memory_of(const Body& body);

// By step, whether the backward runs its forward again.
std::vector<bool> runs_again(const Body& body, Keeping keeping);

}  // namespace llmtrain::body
