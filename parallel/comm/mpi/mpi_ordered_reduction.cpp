// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <cstddef>
#include <deque>

#include "parallel/comm/mpi/mpi_steps.h"
#include "parallel/comm/reduction/ordered_reduction.h"

namespace llmtrain {
namespace {

// Bytes that each rank sums at a time: one segment is summed, in the cache, while others are in transit.
constexpr std::int64_t segment_bytes = std::int64_t{512} << 10;
// Several at a time, so that a segment's two phases, its sum and the next segments' messages overlap; few, since each
// holds a segment of every other rank.
constexpr std::size_t segments_under_way = 4;

// Position r sums part r of the elements, in the order of the positions: every rank sends it its part r (phase 0). In
// an all_reduce position r then sends the sums to all (phase 1). The bytes are those of a ring, in two steps instead of
// 2(n−1); unlike a ring's, the order of the sum is the same for every part.
class OrderedReductionSteps : public MpiSteps {
 public:
  OrderedReductionSteps(const Request& request, const MpiLane& lane)
      : request_(request),
        lane_(lane),
        size_(element_size(request.type)),
        ranks_(request.group.size()),
        own_(request.group.position()),
        is_scattered_(request.collective == Collective::reduce_scatter) {
    elements_ = std::max<std::int64_t>(1, segment_bytes / size_);
    // All ranks need the same number of segments, also those whose part is shorter than the first.
    segments_ = (part_begin(1) + elements_ - 1) / elements_;
    start_more();
  }

  bool advance() override {
    bool is_in_order = true;
    for (Segment& segment : under_way_) {
      // Segments enter phase 1 in order: messages of one phase share a tag and are matched by their order.
      if (segment.phase == 0 && is_in_order && segment.messages.are_done()) add_up(segment);
      is_in_order = is_in_order && segment.phase == 1;
    }
    while (!under_way_.empty() && under_way_.front().phase == 1 && under_way_.front().messages.are_done()) {
      // Buffers are reused, because fresh pages would have to be cleared for every segment.
      spare_.push_back(std::move(under_way_.front().received));
      under_way_.pop_front();
    }
    start_more();
    return under_way_.empty();
  }

  std::vector<int> open_peers() override {
    return under_way_.empty() ? std::vector<int>{} : under_way_.front().messages.open_peers();
  }

 private:
  struct Segment {
    std::int64_t number = 0;
    int phase = 0;
    MpiMessages messages;
    std::vector<std::byte> received;
  };
  struct Range {
    std::int64_t begin = 0;  // in elements of the whole input
    std::int64_t count = 0;
  };

  std::int64_t part_begin(int position) const {
    if (is_scattered_) return position * request_.count;
    // The first `rest` parts are one element longer.
    const std::int64_t even = request_.count / ranks_, rest = request_.count % ranks_;
    return position * even + std::min<std::int64_t>(position, rest);
  }

  // The elements of a position's part that belong to a segment; empty beyond the end of the part.
  Range range(int position, std::int64_t segment) const {
    const std::int64_t begin = std::min(part_begin(position) + segment * elements_, part_begin(position + 1));
    return {begin, std::min(elements_, part_begin(position + 1) - begin)};
  }

  void start_more() {
    while (started_ < segments_ && under_way_.size() < segments_under_way) {
      Segment& segment = under_way_.emplace_back();
      segment.number = started_++;
      if (!spare_.empty()) {
        segment.received = std::move(spare_.back());
        spare_.pop_back();
      }
      scatter(segment);
    }
  }

  void scatter(Segment& segment) {
    const Range own = range(own_, segment.number);
    // For a whole segment, also where the last one is shorter: reused buffers never grow.
    segment.received.resize(static_cast<std::size_t>((ranks_ - 1) * elements_ * size_));
    for (int step = 1; step < ranks_; ++step) {
      const int to = (own_ + step) % ranks_, from = (own_ + ranks_ - step) % ranks_;
      const Range other = range(to, segment.number);
      // Receives are posted before sends, so that arriving messages need no buffering inside MPI.
      if (own.count > 0) segment.messages.receive(received_from(segment, from), own.count * size_, lane_.route(from));
      if (other.count > 0) segment.messages.send(request_.input_at(other.begin), other.count * size_, lane_.route(to));
    }
  }

  std::byte* received_from(Segment& segment, int position) const {
    return segment.received.data() + (position < own_ ? position : position - 1) * elements_ * size_;
  }

  std::byte* output_at(std::int64_t element) const {
    return request_.output_at(is_scattered_ ? element - part_begin(own_) : element);
  }

  void add_up(Segment& segment) {
    // Set first: a rank without elements in this segment still has to take part in the gather.
    segment.phase = 1;
    const Range own = range(own_, segment.number);
    if (own.count > 0) {
      std::vector<const void*> sources;
      for (int position = 0; position < ranks_; ++position) {
        sources.push_back(position == own_ ? request_.input_at(own.begin) : received_from(segment, position));
      }
      void* const destination[] = {output_at(own.begin)};
      reduce_in_order({request_.type, request_.reduction, sources, destination, own.count});
    }
    if (!is_scattered_) gather(segment, own);
  }

  void gather(Segment& segment, const Range& own) {
    // Only now that the sends of phase 0 are complete: in place, these receives write the elements that those sends
    // read.
    for (int step = 1; step < ranks_; ++step) {
      const int to = (own_ + step) % ranks_, from = (own_ + ranks_ - step) % ranks_;
      const Range other = range(from, segment.number);
      if (other.count > 0) segment.messages.receive(output_at(other.begin), other.count * size_, lane_.route(from, 1));
      if (own.count > 0) segment.messages.send(output_at(own.begin), own.count * size_, lane_.route(to, 1));
    }
  }

  Request request_;
  MpiLane lane_;
  std::int64_t size_;
  int ranks_;
  int own_;
  bool is_scattered_;
  std::int64_t elements_ = 0;  // per part and segment
  std::int64_t segments_ = 0;
  std::int64_t started_ = 0;
  std::deque<Segment> under_way_;
  std::vector<std::vector<std::byte>> spare_;
};

}  // namespace

std::unique_ptr<MpiSteps> start_ordered_reduction(const Request& request, const MpiLane& lane) {
  return std::make_unique<OrderedReductionSteps>(request, lane);
}

}  // namespace llmtrain
