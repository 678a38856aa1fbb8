// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/base/element_type.h"

namespace llmtrain {

// The recipe's section `precision`, as core/recipe/recipe.h describes recipes.

enum class DataType { fp32, bf16, fp16 };

// The element type of memory of that data type.
constexpr ElementType element_type(DataType type) {
  switch (type) {
    case DataType::fp32:
      return ElementType::float32;
    case DataType::bf16:
      return ElementType::bfloat16;
    case DataType::fp16:
      return ElementType::float16;
  }
  return ElementType::float32;
}

// What uses FP8: O0 the layers' matrix products, as in NVIDIA's Transformer Engine; from O1 on also what is stored and
// exchanged (Peng et al., arXiv 2310.18313).
enum class Fp8Level { off, o0, o1, o2, o3 };
constexpr bool multiplies_fp8(Fp8Level level) { return level != Fp8Level::off; }
constexpr bool stores_fp8(Fp8Level level) { return level > Fp8Level::o0; }

// The factor of FP8 gradients' scales before they are summed over ranks: FP8-LM's auto-scaling μ; the 1 ÷ √ranks of its
// released code; or one of the two that it compares with, 1 ÷ ranks (pre-scaling) and 1 (post-scaling).
enum class GradientScaling { automatic, inverse_root, pre, post };

// How operands of FP8 products are scaled: by their own largest magnitude, or by that of the steps before.
enum class Fp8ScalingMethod { current, delayed };

struct Fp8ScalingRecipe {
  Fp8ScalingMethod method = Fp8ScalingMethod::current;
  // How many steps' largest magnitudes delayed scaling remembers.
  std::int64_t history_steps = 1024;
  std::int64_t margin = 0;  // powers of two that scales leave for growth

  bool operator==(const Fp8ScalingRecipe&) const = default;
};

// Which products of linear layers FP8 levels multiply in FP8: all, or those that the plan says are faster with it. A
// run replaces automatic by what it comes to: all, but for further patterns of HighPrecisionRecipe::parameters.
enum class Fp8Products { all, automatic };

// The numbers of the products that FP8 levels name: of 8 bits, or of 4 bits with a scale of 8 bits for each 16 (NVFP4,
// NVIDIA, arXiv 2509.25149) or 32 elements (MXFP4, Rouhani et al., arXiv 2310.10537).
enum class ProductFormat { fp8, nvfp4, mxfp4 };

// Bytes of an element of such an operand, without scales that are of more elements.
constexpr double operand_bytes(ProductFormat format) {
  switch (format) {
    case ProductFormat::fp8:
      return 1;
    case ProductFormat::nvfp4:
      return 0.5 + 1.0 / 16;
    case ProductFormat::mxfp4:
      return 0.5 + 1.0 / 32;
  }
  return 1;
}

// Which linear layers FP8 levels leave in the compute type.
struct HighPrecisionRecipe {
  std::int64_t first_layers = 0;
  std::int64_t last_layers = 0;
  std::vector<std::string> parameters;  // patterns of names, in which * stands for any text
  // A layer joins them after this many steps in a row in which an operand overflows, with delayed scaling, or too many
  // sums of its FP8 gradients saturate; 0: never.
  std::int64_t fallback_steps = 0;

  bool operator==(const HighPrecisionRecipe&) const = default;
};

// By what fp16 multiplies the loss before the backward, so that small gradients do not become 0.
struct LossScaleRecipe {
  double initial = 65536;
  std::int64_t growth_steps = 2000;

  bool operator==(const LossScaleRecipe&) const = default;
};

struct PrecisionRecipe {
  DataType compute = DataType::fp32;
  DataType gradients = DataType::fp32;
  Fp8Level fp8_level = Fp8Level::off;
  Fp8Products fp8_products = Fp8Products::all;
  ProductFormat product_format = ProductFormat::fp8;
  Fp8ScalingRecipe fp8_scaling{};
  GradientScaling gradient_scaling = GradientScaling::automatic;
  HighPrecisionRecipe high_precision{};
  LossScaleRecipe loss_scale{};
  bool tf32 = false;                 // in matrix products of fp32 on a GPU
  bool stochastic_rounding = false;  // of weights and moments that updates store in small types
  bool multiplies_fp4() const { return multiplies_fp8(fp8_level) && product_format != ProductFormat::fp8; }
  // Whether the plan says which products are in FP8.
  bool plans_products() const { return multiplies_fp8(fp8_level) && fp8_products == Fp8Products::automatic; }
  // Whether products have the scales of the steps before.
  bool delays_scales() const { return multiplies_fp8(fp8_level) && fp8_scaling.method == Fp8ScalingMethod::delayed; }
  // Whether products of layers, and the gradients of their weights, may leave FP8 during a run.
  bool products_may_fall_back() const { return high_precision.fallback_steps > 0 && delays_scales(); }
  bool gradients_may_fall_back() const { return high_precision.fallback_steps > 0 && stores_fp8(fp8_level); }
  bool operator==(const PrecisionRecipe&) const = default;
};

}  // namespace llmtrain
