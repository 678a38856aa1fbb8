// SPDX-License-Identifier: Apache-2.0
#include "core/page/curve.h"

#include <algorithm>
#include <cmath>
#include <limits>

namespace llmtrain {

void Curve::add(double x, double y) {
  const bool is_finite = std::isfinite(y);
  const Bucket one{x, is_finite ? y : 0, is_finite ? y : 0, is_finite ? y : 0, 1, is_finite ? std::size_t{1} : 0};
  if (!buckets_.empty() && buckets_.back().values < stride_) {
    buckets_.back() = joined(buckets_.back(), one);
    return;
  }
  if (buckets_.size() == most_points_) halve();
  // An odd number of buckets leaves a half full one behind.
  if (!buckets_.empty() && buckets_.back().values < stride_) {
    buckets_.back() = joined(buckets_.back(), one);
  } else {
    buckets_.push_back(one);
  }
}

Curve::Bucket Curve::joined(const Bucket& first, const Bucket& second) {
  Bucket both = second;
  both.values += first.values;
  if (first.finite == 0) return both;
  both.low = second.finite == 0 ? first.low : std::min(first.low, second.low);
  both.high = second.finite == 0 ? first.high : std::max(first.high, second.high);
  both.sum += first.sum;
  both.finite += first.finite;
  return both;
}

void Curve::halve() {
  std::size_t count = 0;
  for (std::size_t i = 0; i < buckets_.size(); i += 2)
    buckets_[count++] = i + 1 < buckets_.size() ? joined(buckets_[i], buckets_[i + 1]) : buckets_[i];
  buckets_.resize(count);
  stride_ *= 2;
}

std::vector<CurvePoint> Curve::points() const {
  std::vector<CurvePoint> points;
  for (const Bucket& bucket : buckets_) {
    const double mean =
        bucket.finite > 0 ? bucket.sum / static_cast<double>(bucket.finite) : std::numeric_limits<double>::quiet_NaN();
    points.push_back({bucket.x, mean, bucket.low, bucket.high});
  }
  return points;
}

}  // namespace llmtrain
