// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/memory/address_space.h"

#include <algorithm>
#include <iterator>

namespace emulated {

void AddressSpace::give(char* begin, std::size_t bytes) {
  const auto hole = holes_.emplace(begin, bytes).first;
  const auto next = std::next(hole);
  if (next != holes_.end() && hole->first + hole->second == next->first) {
    hole->second += next->second;
    holes_.erase(next);
  }
  if (hole == holes_.begin()) return;
  const auto before = std::prev(hole);
  if (before->first + before->second != hole->first) return;
  before->second += hole->second;
  holes_.erase(hole);
}

char* AddressSpace::take(std::size_t bytes) {
  const auto hole = std::find_if(holes_.begin(), holes_.end(), [&](const auto& h) { return h.second >= bytes; });
  if (hole == holes_.end()) return nullptr;
  char* const begin = hole->first;
  const std::size_t left = hole->second - bytes;
  holes_.erase(hole);
  if (left > 0) holes_[begin + bytes] = left;
  return begin;
}

}  // namespace emulated
