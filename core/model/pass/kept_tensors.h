// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <functional>
#include <initializer_list>

namespace llmtrain {

// Is told of each tensor that something keeps between its passes, also of undefined ones, and always in the same
// order. It may replace a tensor by one of the same contents, or for as long as nothing reads it by an undefined one.
using KeptTensorVisitor = std::function<void(at::Tensor& kept)>;

inline void visit_all(const KeptTensorVisitor& visit, std::initializer_list<at::Tensor*> kept) {
  for (at::Tensor* tensor : kept) visit(*tensor);
}

}  // namespace llmtrain
