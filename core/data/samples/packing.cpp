// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/packing.h"

#include <algorithm>
#include <map>
#include <numeric>

namespace llmtrain {

std::vector<std::vector<std::int64_t>> pack(std::span<const std::int64_t> lengths, std::int64_t capacity) {
  std::vector<std::int64_t> order(lengths.size());
  std::iota(order.begin(), order.end(), std::int64_t{0});
  const auto length = [&](std::int64_t document) { return lengths[static_cast<std::size_t>(document)]; };
  std::ranges::stable_sort(order, std::ranges::greater(), length);
  std::vector<std::vector<std::int64_t>> sequences;
  // Indices of sequences by what is left of them; among equal ones the first is filled first.
  std::multimap<std::int64_t, std::size_t> by_room;
  for (const std::int64_t document : order) {
    std::int64_t room = capacity;
    std::size_t sequence = sequences.size();
    if (const auto found = by_room.lower_bound(length(document)); found != by_room.end()) {
      room = found->first;
      sequence = found->second;
      by_room.erase(found);
    } else {
      sequences.emplace_back();
    }
    sequences[sequence].push_back(document);
    by_room.emplace(room - length(document), sequence);
  }
  for (auto& documents : sequences) std::ranges::sort(documents);
  std::ranges::sort(sequences);
  return sequences;
}

}  // namespace llmtrain
