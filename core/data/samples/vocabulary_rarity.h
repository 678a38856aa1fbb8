// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/base/long_work.h"
#include "core/data/token_source.h"

namespace llmtrain {

// The vocabulary rarity of each sample of T = sequence_length tokens (Li et al., arXiv 2212.03597, section 3.1):
// −Σ ln p(w) over the sample's tokens w, summed in double in their order and truncated to a whole number as in
// DeepSpeed. p(w) is the count of w ÷ the number of tokens, over all tokens of the source. Samples follow one another;
// what is left after the last one has none. Reads the source twice, with all cores that this process may use; ids are
// below `vocab_size`.
std::vector<std::int64_t> vocabulary_rarity(const TokenSource& source, std::int64_t sequence_length,
                                            std::int64_t vocab_size, const ReportShare& report);

}  // namespace llmtrain
