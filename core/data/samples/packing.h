// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace llmtrain {

// Assigns documents of lengths[i] tokens, each from 1 to `capacity`, to sequences of at most `capacity` tokens: the
// longest first, each to the fullest sequence that has room for it (best-fit decreasing; Ding et al., arXiv 2404.10830,
// section 3.2). Sequences hold their documents in order and are themselves in the order of their first documents.
// O(n log n).
std::vector<std::vector<std::int64_t>> pack(std::span<const std::int64_t> lengths, std::int64_t capacity);

}  // namespace llmtrain
