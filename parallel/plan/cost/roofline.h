// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

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

enum class MatrixType { compute, fp8 };

// Roofline model of one device's operators: the slower of arithmetic and memory, each with an efficiency that depends
// on size (Williams, Waterman, Patterson, Communications of the ACM 52(4), 2009), plus the gap between two kernels.
class Roofline {
 public:
  // The profile must outlive the object. Attention is the program's on this device, else the profile's.
  Roofline(const ClusterProfile& profile, const PrecisionRecipe& precision);
  Roofline(const ClusterProfile& profile, DataType compute) : Roofline(profile, PrecisionRecipe{.compute = compute}) {}

  Work product(const MatrixProduct& product, MatrixType type = MatrixType::compute) const;
  // A pass over memory that reads and writes this many bytes in total.
  Work pass(double bytes) const;
  // Fused attention of this many FLOPs.
  Work attention_forward(double flops) const;
  Work attention_backward(double flops) const;
  // Seconds until both the device and the host are done, which work at the same time unless the program's host waits
  // for each operator.
  double seconds(const Work& work) const;

  double element_bytes() const { return element_bytes_; }

 private:
  double memory_seconds(double bytes) const;

  const ClusterProfile& profile_;
  AttentionProfile attention_;
  double peak_ = 0;
  double element_bytes_ = 2;
};

}  // namespace llmtrain
