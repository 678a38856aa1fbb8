// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/records/bad_lines.h"

namespace llmtrain {

// What does not become samples of a source's documents as they are, by reasons.
struct LeftOut {
  BadLines bad_lines{OnBadLine::skip};
  // Counts of conversations, and other examples:
  std::int64_t truncated = 0;      // longer than a sample: their end was cut off
  std::int64_t too_long = 0;       // left out, as no token counts before the cut
  std::int64_t no_answer = 0;      // left out, as no token counts at all
  std::int64_t without_words = 0;  // examples of which a text has no tokens, left out
  std::int64_t cut_pairs = 0;      // pairs of which a text is longer than its sequence: its end was cut off
};

// A sentence for each of these that is not zero.
std::vector<std::string> sentences_of(const LeftOut& left_out, std::int64_t sequence_length);

}  // namespace llmtrain
