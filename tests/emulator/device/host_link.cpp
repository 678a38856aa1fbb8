// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/host_link.h"

#include <map>
#include <thread>
#include <utility>

#include "tests/emulator/device/settings.h"

namespace emulated {
namespace {

std::unique_lock<std::mutex> link_of(int device, LinkWay way) {
  static std::mutex of_links;
  static std::map<std::pair<int, LinkWay>, std::mutex> links;  // whose elements stay where they are
  const std::scoped_lock guard(of_links);
  return std::unique_lock(links[{device, way}], std::defer_lock);
}

}  // namespace

LinkUse::LinkUse(int device, LinkWay way, std::int64_t bytes) {
  if (settings().link_rate == 0) return;
  lock_ = link_of(device, way);
  lock_.lock();
  const std::chrono::duration<double> time(static_cast<double>(bytes) / static_cast<double>(settings().link_rate));
  end_ = std::chrono::steady_clock::now() + std::chrono::duration_cast<std::chrono::steady_clock::duration>(time);
}

LinkUse::~LinkUse() {
  if (lock_.owns_lock()) std::this_thread::sleep_until(end_);
}

}  // namespace emulated
