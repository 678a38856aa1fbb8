// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/memory/guard_zone.h"

#include <algorithm>
#include <cstring>

#include "tests/emulator/device/work.h"

namespace emulated {
namespace {

constexpr char poison = static_cast<char>(0xfd);

// The first byte that is no longer poison, or the end.
const char* first_written(const char* begin, const char* end) {
  // memcmp() is many times as fast, and this runs for each tensor of each operation.
  const auto count = static_cast<std::size_t>(end - begin);
  if (count == 0 || (*begin == poison && std::memcmp(begin, begin + 1, count - 1) == 0)) return end;
  return std::find_if(begin, end, [](char byte) { return byte != poison; });
}

}  // namespace

void fill(const GuardZone& zone) {
  auto* const begin = static_cast<char*>(reachable(zone.begin));
  std::memset(begin - GuardZone::bytes, poison, GuardZone::bytes);
  std::memset(begin + zone.block, poison, GuardZone::bytes);
  fill_unused(zone);
}

void fill_unused(const GuardZone& zone) {
  auto* const begin = static_cast<char*>(reachable(zone.begin));
  std::memset(begin + zone.requested, poison, zone.block - zone.requested);
}

std::string find_overrun(const GuardZone& zone) {
  const auto* const begin = static_cast<const char*>(reachable(zone.begin));
  const char* const end = begin + zone.block + GuardZone::bytes;
  const char* const before = first_written(begin - GuardZone::bytes, begin);
  const char* const after = first_written(begin + zone.requested, end);
  if (before == begin && after == end) return "";
  const std::string what = " of " + std::to_string(zone.requested) + " bytes of device memory";
  const std::string where = before != begin
                                ? std::to_string(begin - before) + " bytes before the begin" + what
                                : std::to_string(after - begin - static_cast<std::ptrdiff_t>(zone.requested)) +
                                      " bytes behind the end" + what;
  fill(zone);
  return where;
}

}  // namespace emulated
