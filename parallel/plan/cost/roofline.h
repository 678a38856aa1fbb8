// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>

#include "core/graph/operators.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

// What a run of operators takes: the device's time, and how many operators the host has to start for it.
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

// The part of MatrixProfile::peak_fraction that a product of this shape gets.
double shape_efficiency(const MatrixProfile& curve, const MatrixProduct& product);

enum class MatrixType { compute, fp8 };

// Operators of one device on a roofline: the slower of arithmetic and memory, each with an efficiency that depends on
// size (Williams, Waterman, Patterson, Communications of the ACM 52(4), 2009), and the gap between two kernels.
class Roofline {
 public:
  // `attention` in place of the profile's where it is given.
  Roofline(const ClusterProfile& profile, DataType compute,
           const std::optional<AttentionProfile>& attention = std::nullopt);

  Work product(const MatrixProduct& product, MatrixType type = MatrixType::compute) const;
  // A pass over memory that reads and writes so many bytes in all.
  Work pass(double bytes) const;
  // Fused attention that does so many FLOPs.
  Work attention_forward(double flops) const;
  Work attention_backward(double flops) const;
  // How long the device and the host, side by side, take for the work.
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
