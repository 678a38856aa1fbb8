// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>

#include "core/body/facts.h"

namespace llmtrain::body {

// Attention of queries [b, s, n, d] to keys and values [b, m, g, d], with scores scaled and perhaps a bias [n, s, m]
// added (Vaswani et al., arXiv 1706.03762). Queries and keys of the same tokens may have one label for these, and heads
// one where there are no groups of them (Ainslie et al., arXiv 2305.13245); head i reads key head i ÷ (n ÷ g). The keys
// of a bias always have a label of their own, of as many, or of causal attention whose earlier keys are remembered
// (core/body/run/attention_memory.h) of more.
struct Attention {
  static constexpr const char* name = "attention";
  bool is_causal = false;         // a query sees the keys up to its place; there are as many then
  double dropout = 0;             // of probabilities, in training
  std::optional<double> scale{};  // none: 1 ÷ √d
  bool stores_scores = false;     // also where neither dropout nor a bias asks for it

  bool operator==(const Attention&) const = default;
};

// Whether [b, n, s, m] probabilities pass through memory, or one kernel makes them as it needs them (Dao et al., arXiv
// 2205.14135).
bool stores_scores(const Attention& attention, const StepShape& shape);

void check(const Attention& attention, const StepShape& shape);
AxisUse axis_use(const Attention& attention, const StepShape& shape, AxisId axis);
Work work(const Attention& attention, const StepShape& shape);
Kept kept(const Attention& attention, const StepShape& shape);

}  // namespace llmtrain::body
