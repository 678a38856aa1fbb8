// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <span>
#include <vector>

namespace llmtrain {

// The logarithms of softmax(logits), in nats and float64: a vocabulary's sum in fp32 would cost digits.
class LogProbabilities {
 public:
  // The logits outlive this.
  explicit LogProbabilities(std::span<const float> logits);

  double of(std::int64_t token) const {
    return logits_[static_cast<std::size_t>(token)] - static_cast<double>(largest_) - log_sum_;
  }
  // The most likely tokens, at most `count`; of equally likely ones the lower id is first.
  std::vector<std::int64_t> likeliest(std::int64_t count) const;

 private:
  std::span<const float> logits_;
  float largest_;
  double log_sum_;  // of exponentials relative to the largest
};

// The same as training has them: the negative of the loss, in fp32, of each of these ids where the head's logits are
// [V], in the compute type, of which each of so many tensor ranks computes its part. On the CPU.
std::vector<double> negative_losses(const at::Tensor& logits, std::span<const std::int64_t> ids,
                                    std::int64_t tensor_ranks);

}  // namespace llmtrain
