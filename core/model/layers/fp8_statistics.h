// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <cstddef>

#include "kernels/fp8/fp8.h"

namespace llmtrain {

// What FP8 levels cast: the operands of products, and from O1 on each rank's gradients of weights and their sums over
// the data ranks.
enum class Fp8Tensors { inputs, weights, output_gradients, weight_gradients, gradient_sums };
constexpr std::array<const char*, 5> fp8_tensor_words = {"inputs", "weights", "output_gradients", "weight_gradients",
                                                         "gradient_sums"};

// How FP8 represents the tensors of a kind. Sums are in float64.
struct Fp8Representation {
  double amax = 0;            // the largest magnitude; NaN where an element is not a number
  double smallest_scale = 0;  // of the tensors; 0 before the first
  double largest_scale = 0;
  double elements = 0;
  double saturated = 0;    // elements that became its largest number, being beyond its range
  double underflowed = 0;  // elements that became 0
  double signal = 0;       // the sum of the elements' squares
  double noise = 0;        // that of their differences from what they became

  // 10 · log₁₀(signal ÷ noise), in dB: of tensors whose magnitudes fill the format's normal range about 31.5 in E4M3
  // and 25.5 in E5M2. Infinite without noise.
  double signal_to_noise() const;
};

// Takes both as one; of the same kind.
void add(Fp8Representation& to, const Fp8Representation& more);

// What a step of this rank casts to FP8. Tensors that several ranks hold count on each of them, and a layer's inputs
// again where recompute casts them again. On a GPU numbers add up in its memory, ordered on the current stream, until
// of_kinds() reads them.
class Fp8Statistics {
 public:
  static constexpr std::size_t kinds = fp8_tensor_words.size();
  using Kinds = std::array<Fp8Representation, kinds>;

  // `x` is about to be cast with `scale`, fp32 [1]. Casts it once more, a piece at a time; blocks on a processor.
  void add(Fp8Tensors kind, const at::Tensor& x, const at::Tensor& scale, kernels::Fp8Format format);

  // `x`, in fp32, has become `payload` with this scale. A payload of the largest magnitude counts as saturated.
  void add_cast(Fp8Tensors kind, const at::Tensor& x, const at::Tensor& payload, const at::Tensor& scale);

  // On a GPU the host waits for the current stream.
  const Kinds& of_kinds() const;

 private:
  // On a GPU: what x and what it became, both in float64, add to a kind.
  struct Cast {
    at::Tensor x, became, scale, saturated;
  };
  void add_on_device(Fp8Tensors kind, const Cast& cast);

  mutable Kinds kinds_{};
  mutable at::Tensor device_numbers_;  // float64 [kinds, numbers]; undefined where there are none
  mutable std::array<double, kinds> device_elements_{};
};

}  // namespace llmtrain
