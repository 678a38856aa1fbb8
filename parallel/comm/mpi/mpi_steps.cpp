// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_steps.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "parallel/comm/reduction/ordered_reduction.h"

namespace llmtrain {
namespace {

// Up to this size every rank of an all_reduce sends all of its data to every other: one step instead of two, because
// latency dominates.
constexpr std::int64_t small_reduction_bytes = 1 << 14;

void copy(void* to, const void* from, std::int64_t bytes) {
  if (bytes > 0 && to != from) std::memcpy(to, from, static_cast<std::size_t>(bytes));
}

// One set of messages. By itself for operations whose messages all start immediately, directly from and to the caller's
// memory.
class DirectSteps : public MpiSteps {
 public:
  bool advance() override { return messages.are_done(); }
  std::vector<int> open_peers() override { return messages.open_peers(); }

  MpiMessages messages;
};

// Everyone sends an empty message to everyone: quadratic in messages, but a single step, and timeouts can name the
// missing ranks.
void start_barrier(MpiMessages& messages, const Request& request, const MpiLane& lane) {
  for (int peer = 0; peer < request.group.size(); ++peer) {
    if (peer == request.group.position()) continue;
    messages.receive(nullptr, 0, lane.route(peer));
    messages.send(nullptr, 0, lane.route(peer));
  }
}

void start_all_gather(MpiMessages& messages, const Request& request, const MpiLane& lane) {
  const std::int64_t bytes = request.bytes();
  const int ranks = request.group.size(), own = request.group.position();
  copy(request.output_at(own * request.count), request.input, bytes);
  // Each rank starts with its neighbour, so that not all send to the same rank at the same time.
  for (int step = 1; step < ranks && bytes > 0; ++step) {
    const int to = (own + step) % ranks, from = (own + ranks - step) % ranks;
    messages.receive(request.output_at(from * request.count), bytes, lane.route(from));
    messages.send(request.input, bytes, lane.route(to));
  }
}

std::vector<std::int64_t> starts_of(const std::vector<std::int64_t>& counts) {
  std::vector<std::int64_t> starts(counts.size());
  std::exclusive_scan(counts.begin(), counts.end(), starts.begin(), std::int64_t{0});
  return starts;
}

void start_all_to_all(MpiMessages& messages, const Request& request, const MpiLane& lane) {
  const std::int64_t size = element_size(request.type);
  const std::vector<std::int64_t> inputs = starts_of(request.input_counts), outputs = starts_of(request.output_counts);
  const auto ranks = inputs.size();
  const auto own = static_cast<std::size_t>(request.group.position());
  copy(request.output_at(outputs[own]), request.input_at(inputs[own]), request.input_counts[own] * size);
  for (std::size_t step = 1; step < ranks; ++step) {
    const std::size_t to = (own + step) % ranks, from = (own + ranks - step) % ranks;
    // Empty parts are sent too, so that ranks that disagree on a count notice it.
    messages.receive(request.output_at(outputs[from]), request.output_counts[from] * size,
                     lane.route(static_cast<int>(from)));
    messages.send(request.input_at(inputs[to]), request.input_counts[to] * size, lane.route(static_cast<int>(to)));
  }
}

// Broadcast down a binomial tree: place v, counted from the root, receives from place v without its highest bit.
class TreeSteps : public DirectSteps {
 public:
  TreeSteps(const Request& request, const MpiLane& lane)
      : request_(request),
        lane_(lane),
        ranks_(request.group.size()),
        place_((request.group.position() - request.peer + ranks_) % ranks_) {
    // The root has the data already.
    if (place_ == 0) return;
    int parent_bit = 1;
    while (parent_bit * 2 <= place_) parent_bit *= 2;
    messages.receive(request_.output, request_.bytes(), lane_.route(position(place_ - parent_bit)));
  }

  bool advance() override {
    if (!messages.are_done()) return false;
    if (has_passed_on_) return true;
    has_passed_on_ = true;
    int bit = 1;
    while (bit <= place_) bit *= 2;
    // The child at the smallest distance comes first: the tree below it is the deepest.
    for (; place_ + bit < ranks_; bit *= 2)
      messages.send(request_.output, request_.bytes(), lane_.route(position(place_ + bit)));
    return messages.are_done();
  }

 private:
  int position(int place) const { return (place + request_.peer) % ranks_; }

  Request request_;
  MpiLane lane_;
  int ranks_;
  int place_;
  bool has_passed_on_ = false;
};

// Every rank receives all inputs and sums them itself, in the same order.
class SmallReductionSteps : public DirectSteps {
 public:
  SmallReductionSteps(const Request& request, const MpiLane& lane) : request_(request), bytes_(request.bytes()) {
    const int ranks = request.group.size(), own = request.group.position();
    // Sends use a copy, because the sums overwrite the input while sends may still read it.
    inputs_.resize(static_cast<std::size_t>(bytes_ * ranks));
    copy(input_of(own), request.input, bytes_);
    for (int peer = 0; peer < ranks && bytes_ > 0; ++peer) {
      if (peer == own) continue;
      messages.receive(input_of(peer), bytes_, lane.route(peer));
      messages.send(input_of(own), bytes_, lane.route(peer));
    }
  }

  bool advance() override {
    if (!messages.are_done()) return false;
    std::vector<const void*> sources;
    for (int peer = 0; peer < request_.group.size(); ++peer) sources.push_back(input_of(peer));
    void* const destination[] = {request_.output};
    reduce_in_order({request_.type, request_.reduction, sources, destination, request_.count});
    return true;
  }

 private:
  std::byte* input_of(int position) { return inputs_.data() + position * bytes_; }

  Request request_;
  std::int64_t bytes_;
  std::vector<std::byte> inputs_;
};

// Peers are world ranks, which open_peers() translates to positions of the group.
class MeetingSteps : public DirectSteps {
 public:
  explicit MeetingSteps(const std::vector<int>& ranks) : ranks_(ranks) {}

  std::vector<int> open_peers() override {
    std::vector<int> peers = DirectSteps::open_peers();
    for (int& peer : peers) peer = static_cast<int>(std::ranges::find(ranks_, peer) - ranks_.begin());
    return peers;
  }

 private:
  std::vector<int> ranks_;
};

}  // namespace

std::unique_ptr<MpiSteps> start_meeting(const std::vector<int>& ranks, int position, MPI_Comm communicator) {
  auto steps = std::make_unique<MeetingSteps>(ranks);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (static_cast<int>(i) == position) continue;
    steps->messages.receive(nullptr, 0, {communicator, ranks[i], 0});
    steps->messages.send(nullptr, 0, {communicator, ranks[i], 0});
  }
  return steps;
}

std::unique_ptr<MpiSteps> start_steps(const Request& request, const MpiLane& lane) {
  auto steps = std::make_unique<DirectSteps>();
  switch (request.collective) {
    case Collective::all_reduce:
      if (request.bytes() > small_reduction_bytes) return start_ordered_reduction(request, lane);
      return std::make_unique<SmallReductionSteps>(request, lane);
    case Collective::reduce_scatter:
      return start_ordered_reduction(request, lane);
    case Collective::broadcast:
      return std::make_unique<TreeSteps>(request, lane);
    case Collective::all_gather:
      start_all_gather(steps->messages, request, lane);
      break;
    case Collective::all_to_all:
      start_all_to_all(steps->messages, request, lane);
      break;
    case Collective::barrier:
      start_barrier(steps->messages, request, lane);
      break;
    case Collective::send:
      steps->messages.send(request.input, request.bytes(), lane.message_route(request.peer));
      break;
    case Collective::receive:
      steps->messages.receive(request.output, request.bytes(), lane.message_route(request.peer));
      break;
  }
  return steps;
}

}  // namespace llmtrain
