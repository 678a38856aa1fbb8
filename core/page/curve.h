// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

namespace llmtrain {

// The mean of neighbouring values, and their range.
struct CurvePoint {
  double x = 0;  // of the last of them
  double y = 0;  // not a number where none of them is finite
  double low = 0;
  double high = 0;
};

// Any number of values in bounded memory: neighbours are joined into one point when there are too many. The range keeps
// every spike.
class Curve {
 public:
  explicit Curve(std::size_t most_points = 400) : most_points_(most_points) {}

  // With ascending x.
  void add(double x, double y);
  // At most most_points.
  std::vector<CurvePoint> points() const;
  bool empty() const { return buckets_.empty(); }

 private:
  struct Bucket {
    double x = 0, sum = 0, low = 0, high = 0;
    std::size_t values = 0, finite = 0;
  };
  static Bucket joined(const Bucket& first, const Bucket& second);
  void halve();

  std::size_t most_points_;
  std::size_t stride_ = 1;  // values of a full bucket
  std::vector<Bucket> buckets_;
};

}  // namespace llmtrain
