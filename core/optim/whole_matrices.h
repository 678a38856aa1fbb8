// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>

namespace llmtrain {

// The matrices of which an optimizer's flat memory holds all elements or some: what an update that needs whole matrices
// asks of the other ranks.
class WholeMatrices {
 public:
  WholeMatrices() = default;
  WholeMatrices(const WholeMatrices&) = delete;
  WholeMatrices& operator=(const WholeMatrices&) = delete;
  virtual ~WholeMatrices() = default;

  // Elements [begin, end) of the flat memory: a flat tensor in fp32, which is only read.
  using Read = std::function<at::Tensor(std::int64_t begin, std::int64_t end)>;
  // Returns what replaces a whole matrix [rows, columns], which is contiguous and only read.
  using Transform = std::function<at::Tensor(const at::Tensor& matrix)>;
  // Receives elements of the result, flat, as they are from `begin` on in the flat memory.
  using Write = std::function<void(std::int64_t begin, const at::Tensor& values)>;

  // Transforms each matrix of which the flat memory holds elements, as a whole wherever its parts are, so that every
  // layout has the same bits. Each element is read once and later written once. Collective over the ranks that hold the
  // other parts; blocks.
  virtual void for_each(const Read& read, const Transform& transform, const Write& write) const = 0;
};

}  // namespace llmtrain
