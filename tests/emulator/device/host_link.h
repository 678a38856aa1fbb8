// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

namespace emulated {

enum class LinkWay { to_device, to_host };

// A copy over the link between a device and the host, which has a rate of its own each way (Settings::link_rate) and
// one copy at a time: begins when the link is free that way, and ends, with this object, no earlier than the bytes have
// passed. Without a rate it takes no time. By the thread of the stream that copies.
class LinkUse {
 public:
  LinkUse(int device, LinkWay way, std::int64_t bytes);
  ~LinkUse();
  LinkUse(const LinkUse&) = delete;
  LinkUse& operator=(const LinkUse&) = delete;

 private:
  std::unique_lock<std::mutex> lock_;
  std::chrono::steady_clock::time_point end_;
};

}  // namespace emulated
