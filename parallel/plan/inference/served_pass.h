// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace llmtrain {

// For arithmetic with sizes and numbers of devices.
constexpr double as_real(std::int64_t value) { return static_cast<double>(value); }

// One pass of a model that is served: of all prompts, or of one new token of each sequence.
struct ServedPass {
  std::int64_t sequences = 1;
  std::int64_t tokens = 1;   // new ones of each sequence
  std::int64_t context = 1;  // tokens that the last of these sees, itself included

  bool is_prefill() const { return tokens > 1; }
  double all_tokens() const { return as_real(sequences) * as_real(tokens); }
};

}  // namespace llmtrain
