// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/graph/operators/operators.h"
#include "parallel/plan/profile/cluster_profile.h"

namespace llmtrain {

// The work of a sequence of operators: the device's time, and how many operators the host launches for it.
struct Work {
  double seconds = 0;
  double operators = 0;

  Work& operator+=(const Work& other) {
    seconds += other.seconds;
    operators += other.operators;
    return *this;
  }
  Work operator+(const Work& other) const { return {seconds + other.seconds, operators + other.operators}; }
  Work operator*(double times) const { return {seconds * times, operators * times}; }
};

// The fraction of MatrixProfile::peak_fraction that a product of this shape reaches.
double shape_efficiency(const MatrixProfile& curve, const MatrixProduct& product);

// What the speed of fused attention depends on.
struct AttentionSizes {
  double sequence = 0;       // keys of a query without a mask
  double heads = 0;          // of all sequences
  double heads_per_key = 1;  // query heads that share keys and values
  double head_size = 0;
};

// The part of the peak that an operator reaches, and how near that is to what was measured; without a basis where the
// profile's fitted rates say it.
struct Reached {
  double fraction = 0;
  std::optional<Basis> basis{};
};

enum class MatrixType { compute, fp8 };

// Roofline model of one device's operators: the slower of arithmetic and memory, each with an efficiency that depends
// on size (Williams, Waterman, Patterson, Communications of the ACM 52(4), 2009), plus the gap between two kernels. The
// program says whether efficiencies are those of operators measured one by one, or fitted (KernelRates).
class Roofline {
 public:
  // The profile must outlive the object. Attention is the program's on this device, if it states one.
  Roofline(const ClusterProfile& profile, const PrecisionRecipe& precision);
  Roofline(const ClusterProfile& profile, DataType compute) : Roofline(profile, PrecisionRecipe{.compute = compute}) {}

  Work product(const MatrixProduct& product, MatrixType type = MatrixType::compute) const;
  // Products of several experts in one kernel, `product.batch` of them. Where such were measured, in 16 bits; those in
  // FP8 are as far from their roofline, relative to products of one matrix.
  Work grouped_product(const MatrixProduct& product, MatrixType type = MatrixType::compute) const;
  Work linear(const MatrixProduct& product, MatrixType type, bool is_grouped) const {
    return is_grouped ? grouped_product(product, type) : this->product(product, type);
  }
  // The product that makes the gradient of this one's weights. Grouped ones were measured forwards, and are taken to be
  // as fast: they multiply and move as much.
  Work weight_gradient(const MatrixProduct& product, MatrixType type, bool is_grouped) const;
  // A grouped product's, without the gap between kernels, of a product that moves so many bytes; needs
  // measures_grouped().
  double grouped_seconds(const MatrixProduct& product, MatrixType type, double bytes) const;
  // Whether products of so few rows were measured; those of fewer read the weights as fast as memory is.
  bool measures_grouped(const MatrixProduct& product) const {
    return grouped_table_ != nullptr && product.rows >= grouped_table_->axes()[0].front();
  }
  // A pass over memory that reads and writes this many bytes in total.
  Work pass(double bytes) const;
  // Fused attention of this many FLOPs.
  Work attention_forward(double flops, const AttentionSizes& sizes) const;
  Work attention_backward(double flops, const AttentionSizes& sizes) const;
  // What these reach, without the gap between kernels; attention's forward.
  Reached product_efficiency(const MatrixProduct& product, MatrixType type) const;
  Reached attention_efficiency(const AttentionSizes& sizes) const;
  // The part of its roofline that a grouped product reaches; needs measures_grouped().
  Reached grouped_efficiency(const MatrixProduct& product, MatrixType type) const;
  // Whether passes over memory are as fast as measured ones.
  bool measures_passes() const { return tables_ != nullptr; }
  // Seconds until both the device and the host are done, which work at the same time unless the program's host waits
  // for each operator.
  double seconds(const Work& work) const;
  double host_seconds(const Work& work) const;

  double element_bytes() const { return element_bytes_; }

 private:
  // How fast products of one type are: as the table says, else as the curve does.
  struct ProductRate {
    double peak = 0;
    double fraction = 0;  // of the peak, that the curve's largest products reach
    const EfficiencyTable* table = nullptr;
  };

  double memory_seconds(double bytes) const;
  double moved_bytes(const MatrixProduct& product, MatrixType type) const;
  double table_efficiency(const EfficiencyTable::Found& found) const;
  bool multiplies_fp8() const { return has_fp8_; }
  const ProductRate& rate(MatrixType type) const { return type == MatrixType::fp8 ? fp8_ : compute_; }

  const ClusterProfile& profile_;
  const OperatorTables* tables_ = nullptr;  // null where fitted rates hold
  AttentionProfile attention_;
  const EfficiencyTable* attention_table_ = nullptr;
  const EfficiencyTable* grouped_table_ = nullptr;
  ProductRate compute_;
  ProductRate fp8_;  // that of the compute type on a device without FP8, or without FP4 where this is asked for
  double operand_bytes_ = 1;  // per element of these
  double element_bytes_ = 2;
  bool has_fp8_ = false;
};

}  // namespace llmtrain
