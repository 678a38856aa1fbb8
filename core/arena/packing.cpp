// SPDX-License-Identifier: Apache-2.0
#include "core/arena/packing.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <random>
#include <stdexcept>
#include <utility>

#include "core/arena/overlaps.h"

namespace llmtrain {
namespace {

using Order = std::vector<std::size_t>;

struct Extent {
  std::int64_t begin = 0, end = 0;
};

std::vector<Buffer> with_whole_blocks(std::span<const Buffer> buffers, std::int64_t alignment) {
  std::vector<Buffer> rounded(buffers.begin(), buffers.end());
  for (Buffer& buffer : rounded) {
    if (buffer.bytes < 0) throw std::invalid_argument("a buffer has a negative size");
    if (buffer.last < buffer.first) throw std::invalid_argument("a buffer's last use is before its first");
    buffer.bytes = (buffer.bytes + alignment - 1) / alignment * alignment;
  }
  return rounded;
}

struct Event {
  std::int64_t moment = 0;
  std::int64_t change = 0;
};

// The sum of sizes from each moment at which it changes; what ends at a moment is still there at it.
std::vector<Event> sums_over_time(std::span<const Buffer> buffers) {
  std::vector<Event> begins, ends;
  for (const Buffer& buffer : buffers) {
    begins.push_back({buffer.first, buffer.bytes});
    ends.push_back({buffer.last, buffer.bytes});
  }
  std::ranges::sort(begins, {}, &Event::moment);
  std::ranges::sort(ends, {}, &Event::moment);
  std::vector<Event> sums;
  std::int64_t sum = 0;
  std::size_t ended = 0;
  for (std::size_t i = 0; i < begins.size();) {
    const std::int64_t moment = begins[i].moment;
    for (; ended < ends.size() && ends[ended].moment < moment; ++ended) sum -= ends[ended].change;
    for (; i < begins.size() && begins[i].moment == moment; ++i) sum += begins[i].change;
    sums.push_back({moment, sum});
  }
  return sums;
}

std::int64_t largest(const std::vector<Event>& sums) {
  return sums.empty() ? 0 : std::ranges::max(sums, {}, &Event::change).change;
}

class Packer {
 public:
  Packer(std::vector<Buffer> buffers, std::int64_t pairs)
      : buffers_(std::move(buffers)), overlaps_(buffers_), left_(pairs) {}

  Packing best() {
    bound_ = largest(sums_over_time(buffers_));
    for (Order& order : first_orders()) {
      if (is_done()) break;
      keep_better(std::move(order));
    }
    improve();
    return std::move(best_);
  }

 private:
  // A thousandth of the block is not worth more seconds.
  bool is_done() const { return has_one_ && (best_.height - bound_ <= bound_ / 1024 || left_ <= 0); }

  std::vector<Order> first_orders() const {
    Order by_first;
    for (std::size_t i = 0; i < buffers_.size(); ++i)
      if (buffers_[i].bytes > 0) by_first.push_back(i);
    std::ranges::stable_sort(by_first, {}, [&](std::size_t i) { return buffers_[i].first; });
    const auto sorted = [&](auto key) {
      Order order = by_first;
      std::ranges::stable_sort(order, std::ranges::greater(), key);
      return order;
    };
    const auto moments = [&](std::size_t i) { return static_cast<double>(buffers_[i].last - buffers_[i].first) + 1; };
    const auto bytes = [&](std::size_t i) { return buffers_[i].bytes; };
    const std::vector<std::int64_t> crowds = most_alive_beside();
    std::vector<Order> orders;
    orders.push_back(sorted([&](std::size_t i) { return std::pair(bytes(i), moments(i)); }));
    orders.push_back(sorted([&](std::size_t i) { return std::pair(moments(i), bytes(i)); }));
    orders.push_back(sorted([&](std::size_t i) { return std::pair(crowds[i], bytes(i)); }));
    orders.push_back(sorted([&](std::size_t i) { return static_cast<double>(bytes(i)) * moments(i); }));
    orders.push_back(by_first);
    return orders;
  }

  // The largest sum of sizes during the life of each buffer, by its index.
  std::vector<std::int64_t> most_alive_beside() const {
    const std::vector<Event> sums = sums_over_time(buffers_);
    // The largest sum of each 2^k moments from each on: two of them cover any stretch.
    std::vector<std::vector<std::int64_t>> most_of(1);
    for (const Event& sum : sums) most_of[0].push_back(sum.change);
    for (std::size_t width = 1; 2 * width <= sums.size(); width *= 2) {
      const std::vector<std::int64_t>& half = most_of.back();
      std::vector<std::int64_t> whole(sums.size() - 2 * width + 1);
      for (std::size_t i = 0; i < whole.size(); ++i) whole[i] = std::max(half[i], half[i + width]);
      most_of.push_back(std::move(whole));
    }
    std::vector<std::int64_t> most(buffers_.size());
    for (std::size_t i = 0; i < buffers_.size(); ++i) {
      const auto place = [&](auto bound) { return static_cast<std::size_t>(bound - sums.begin()); };
      const std::size_t begin = place(std::ranges::lower_bound(sums, buffers_[i].first, {}, &Event::moment));
      const std::size_t end = place(std::ranges::upper_bound(sums, buffers_[i].last, {}, &Event::moment));
      std::size_t level = 0;
      while ((std::size_t{2} << level) <= end - begin) ++level;
      most[i] = std::max(most_of[level][begin], most_of[level][end - (std::size_t{1} << level)]);
    }
    return most;
  }

  // Places the buffers one after another, and stops once one reaches beyond `most`. Returns whether none does.
  bool place(const Order& order, std::int64_t most, Packing& packing) {
    packing.offsets.assign(buffers_.size(), 0);
    packing.height = 0;
    is_placed_.assign(buffers_.size(), false);
    for (const std::size_t buffer : order) {
      const std::int64_t offset = lowest_gap(buffer, packing.offsets);
      packing.offsets[buffer] = offset;
      packing.height = std::max(packing.height, offset + buffers_[buffer].bytes);
      is_placed_[buffer] = true;
      if (packing.height > most) return false;
    }
    return true;
  }

  std::int64_t lowest_gap(std::size_t buffer, const std::vector<std::int64_t>& offsets) {
    taken_.clear();
    overlaps_.visit(buffer, [&](std::size_t other) {
      --left_;
      if (is_placed_[other]) taken_.push_back({offsets[other], offsets[other] + buffers_[other].bytes});
    });
    std::ranges::sort(taken_, {}, &Extent::begin);
    std::int64_t offset = 0;
    for (const Extent& extent : taken_) {
      if (extent.begin >= offset + buffers_[buffer].bytes) break;
      offset = std::max(offset, extent.end);
    }
    return offset;
  }

  void keep_better(Order order) {
    Packing packing;
    const bool is_first = !has_one_;
    const std::int64_t most = is_first ? std::numeric_limits<std::int64_t>::max() : best_.height - 1;
    if (!place(order, most, packing)) return;
    has_one_ = true;
    best_ = std::move(packing);
    order_ = std::move(order);
  }

  void improve() {
    std::mt19937_64 random(1);
    Packing packing;
    while (!is_done()) {
      Order order = order_;
      // Those that reach the top, and one at random: without it the same few are exchanged for ever.
      std::vector<std::size_t> late;
      for (std::size_t i = 0; i < order.size(); ++i)
        if (best_.offsets[order[i]] + buffers_[order[i]].bytes == best_.height) late.push_back(i);
      late.push_back(random() % order.size());
      for (const std::size_t place : late) {
        const std::size_t earlier = random() % (place + 1);
        std::rotate(order.begin() + static_cast<std::ptrdiff_t>(earlier),
                    order.begin() + static_cast<std::ptrdiff_t>(place),
                    order.begin() + static_cast<std::ptrdiff_t>(place) + 1);
      }
      if (!place(order, best_.height, packing)) continue;
      best_ = packing;
      order_ = std::move(order);
    }
  }

  std::vector<Buffer> buffers_;
  Overlaps overlaps_;
  std::int64_t left_;  // pairs that may still be looked at
  std::int64_t bound_ = 0;
  bool has_one_ = false;
  Packing best_;
  Order order_;  // that best_ was made in
  std::vector<bool> is_placed_;
  std::vector<Extent> taken_;
};

}  // namespace

Packing pack(std::span<const Buffer> buffers, const PackingLimits& limits) {
  return Packer(with_whole_blocks(buffers, limits.alignment), limits.pairs).best();
}

std::int64_t least_height(std::span<const Buffer> buffers, std::int64_t alignment) {
  return largest(sums_over_time(with_whole_blocks(buffers, alignment)));
}

}  // namespace llmtrain
