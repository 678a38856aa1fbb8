// SPDX-License-Identifier: Apache-2.0
// The zones around a block of device memory that nothing may write. An operation that overruns a block which it was
// given is named right after it has run; one that lands beside another block is found when the host waits for the
// device.
#pragma once

#include <cstddef>
#include <string>

namespace emulated {

struct GuardZone {
  static constexpr std::size_t bytes = 512;  // before a block, and at least as many after it

  const char* begin;      // of the block, as the host knows it
  std::size_t requested;  // bytes that may be used
  std::size_t block;      // bytes of the whole block; those beyond `requested` are guarded as well
};

// The rights to the memory that these need are a stream's thread's.
void fill(const GuardZone& zone);
void fill_unused(const GuardZone& zone);  // the block's bytes beyond those requested, alone
// Repairs what it finds. Returns "3 bytes behind the end of 1000 bytes of device memory", say, or an empty text.
std::string find_overrun(const GuardZone& zone);

}  // namespace emulated
