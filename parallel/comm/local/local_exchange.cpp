// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/local/local_exchange.h"

#include <algorithm>
#include <cstring>
#include <thread>
#include <utility>

#include "parallel/comm/reduction/ordered_reduction.h"

namespace llmtrain {
namespace {

// Below this size the last rank to join finishes before another one would have woken up.
constexpr std::int64_t small_bytes = 1 << 16;

// Elements per piece: small enough that the parts of several ranks stay in the second-level cache.
constexpr std::int64_t piece_elements = std::int64_t{1} << 15;

// Splits the range of `whole` into pieces.
void append_split(std::vector<Piece>& pieces, const Piece& whole) {
  for (std::int64_t begin = 0; begin < whole.count; begin += piece_elements) {
    pieces.push_back({whole.from, whole.to, whole.input_begin + begin, whole.output_begin + begin,
                      std::min(piece_elements, whole.count - begin)});
  }
}

void append_all_to_all(std::vector<Piece>& pieces, const std::vector<Request>& requests) {
  const std::size_t ranks = requests.size();
  std::vector<std::int64_t> output_begin(ranks, 0);
  for (std::size_t from = 0; from < ranks; ++from) {
    std::int64_t input_begin = 0;
    for (std::size_t to = 0; to < ranks; ++to) {
      const std::int64_t count = requests[from].input_counts[to];
      append_split(pieces, {static_cast<int>(from), static_cast<int>(to), input_begin, output_begin[to], count});
      input_begin += count;
      output_begin[to] += count;
    }
  }
}

void copy_piece(const Request& from, const Request& to, const Piece& piece) {
  const std::byte* source = from.input_at(piece.input_begin);
  std::byte* destination = to.output_at(piece.output_begin);
  // In-place operations share the memory of input and output.
  if (source != destination)
    std::memcpy(destination, source, static_cast<std::size_t>(piece.count * element_size(from.type)));
}

void reduce_piece(const std::vector<Request>& requests, const Piece& piece) {
  std::vector<const void*> sources;
  std::vector<void*> destinations;
  for (const Request& request : requests) sources.push_back(request.input_at(piece.input_begin));
  // A reduce_scatter writes to one rank, an all_reduce to all.
  if (piece.to >= 0) {
    destinations.push_back(requests[static_cast<std::size_t>(piece.to)].output_at(piece.output_begin));
  } else {
    for (const Request& request : requests) destinations.push_back(request.output_at(piece.output_begin));
  }
  const Request& first = requests.front();
  reduce_in_order({first.type, first.reduction, sources, destinations, piece.count});
}

std::string different(const Request& left, const Request& right) {
  const auto start_of = [](const Request& request) {
    return "rank " + std::to_string(request.group.rank_at(request.group.position())) + " starts " +
           request.description();
  };
  return start_of(left) + " but " + start_of(right) + "; they must agree";
}

// Only what must be equal: memory, addresses and purpose may differ between ranks.
bool agree(const Request& left, const Request& right) {
  if (left.type != right.type) return false;
  if (left.is_message()) return left.count == right.count;
  const bool is_same = left.collective == right.collective && left.peer == right.peer;
  return is_same && (left.collective == Collective::all_to_all ||
                     (left.count == right.count && left.reduction == right.reduction));
}

// The reason why the members' requests, by position, are not the same operation; empty if they are. For a message the
// sender's request comes first, the receiver's second.
std::string mismatch(const std::vector<Request>& requests) {
  for (const Request& request : requests) {
    if (!agree(requests.front(), request)) return different(requests.front(), request);
  }
  if (requests.front().collective != Collective::all_to_all) return "";
  for (std::size_t from = 0; from < requests.size(); ++from) {
    for (std::size_t to = 0; to < requests.size(); ++to) {
      // Counts form a matrix: what one sends must be what the other expects.
      if (requests[from].input_counts[to] != requests[to].output_counts[from])
        return different(requests[from], requests[to]) + " on the counts between them";
    }
  }
  return "";
}

// The pieces of the whole operation, in ascending order of addresses.
std::vector<Piece> split_into_pieces(const std::vector<Request>& requests) {
  std::vector<Piece> pieces;
  const Request& first = requests.front();
  const int ranks = static_cast<int>(requests.size());
  switch (first.collective) {
    case Collective::all_reduce:
      // One piece reads a range of all inputs and writes it to all outputs, so each sum is computed once for all ranks.
      append_split(pieces, {-1, -1, 0, 0, first.count});
      break;
    case Collective::all_gather:
      for (int from = 0; from < ranks; ++from) append_split(pieces, {from, -1, 0, from * first.count, first.count});
      break;
    case Collective::reduce_scatter:
      for (int to = 0; to < ranks; ++to) append_split(pieces, {-1, to, to * first.count, 0, first.count});
      break;
    case Collective::all_to_all:
      append_all_to_all(pieces, requests);
      break;
    case Collective::broadcast:
      append_split(pieces, {first.peer, -1, 0, 0, first.count});
      break;
    case Collective::send:
    case Collective::receive:
      append_split(pieces, {0, 1, 0, 0, first.count});
      break;
    case Collective::barrier:
      break;
  }
  return pieces;
}

void do_piece(const std::vector<Request>& requests, const Piece& piece) {
  if (piece.from < 0) return reduce_piece(requests, piece);
  const Request& from = requests[static_cast<std::size_t>(piece.from)];
  if (piece.to >= 0) return copy_piece(from, requests[static_cast<std::size_t>(piece.to)], piece);
  for (const Request& to : requests) copy_piece(from, to, piece);
}

}  // namespace

LocalExchange::LocalExchange(LocalShared& shared, std::vector<int> ranks)
    : shared_(shared),
      ranks_(std::move(ranks)),
      members_(ranks_.size()),
      requests_(ranks_.size()),
      finish_(ranks_.size()) {}

bool LocalExchange::join(int member, const Request& request, const std::shared_ptr<OperationLog>& log,
                         const OperationLog::Entry& entry) {
  const auto index = static_cast<std::size_t>(member);
  {
    const std::lock_guard lock(mutex_);
    requests_[index] = request;
    members_[index] = {true, log, entry};
    if (++joined_ < ranks_.size()) return false;
  }
  // Only the last member gets here, after all others have joined, so the requests need no lock any more.
  const std::string problem = mismatch(requests_);
  if (!problem.empty()) {
    shared_.fail({ranks_[index], ExitCode::internal_error, problem});
    throw Error(ExitCode::internal_error, problem);
  }
  prepare();
  return true;
}

void LocalExchange::prepare() {
  pieces_ = split_into_pieces(requests_);
  // Before ready_: others may complete() the exchange as soon as they see it.
  plan_finish(Clock::now());
  // Publishes the requests and pieces, which helpers read without the mutex once has_work() has seen the flag.
  ready_.store(true, std::memory_order_release);
  // Barriers and empty tensors have nothing to copy.
  if (pieces_.empty()) {
    complete();
  } else if (requests_.front().total_count() * element_size(requests_.front().type) <= small_bytes) {
    help();
  } else {
    // Left to the threads that wait: starting an operation must not take the time of a large copy.
    shared_.ring(ranks_);
  }
}

void LocalExchange::plan_finish(Clock::time_point now) {
  LinkModel& links = shared_.links();
  const Request& first = requests_.front();
  if (links.is_off()) {
    std::fill(finish_.begin(), finish_.end(), now);
  } else if (first.collective == Collective::send) {
    // A message leaves when it is sent, whenever its receiver comes; a collective only begins when its last member has
    // come.
    const LinkModel::Passage passage =
        links.message(ranks_[0], ranks_[1], first.ring_bytes(), members_[0].entry.started);
    finish_ = {passage.left, passage.arrived};
  } else {
    std::fill(finish_.begin(), finish_.end(), links.collective(requests_, now));
  }
}

bool LocalExchange::has_work() const {
  return ready_.load(std::memory_order_acquire) && !withdrawn_.load() && taken_.load() < pieces_.size();
}

void LocalExchange::help() {
  while (has_work()) {
    // Announce, then check; withdraw() sets its flag, then reads helpers_. With sequentially consistent atomics either
    // this thread sees the flag or withdraw() sees the helper and waits for it.
    helpers_.fetch_add(1);
    if (withdrawn_.load()) {
      helpers_.fetch_sub(1);
      return;
    }
    const std::size_t piece = taken_.fetch_add(1);
    if (piece < pieces_.size()) do_piece(requests_, pieces_[piece]);
    helpers_.fetch_sub(1);
    // Exactly one helper finishes the last piece and completes the exchange for all. The counter also orders what the
    // other helpers have copied before complete(), which publishes all of it.
    if (piece < pieces_.size() && finished_.fetch_add(1) + 1 == pieces_.size()) complete();
  }
}

void LocalExchange::complete() {
  const Clock::time_point now = Clock::now();
  for (std::size_t i = 0; i < members_.size(); ++i) {
    // The emulated network cannot deliver before the data have been copied.
    finish_[i] = std::max(finish_[i], now);
    members_[i].log->finish(members_[i].entry, finish_[i]);
  }
  // Publishes results and finish times to members that see done_.
  done_.store(true, std::memory_order_release);
  shared_.ring(ranks_);
}

void LocalExchange::withdraw() noexcept {
  // Helpers finish at most the piece that they are in, so the loop is short.
  withdrawn_.store(true);
  while (helpers_.load() > 0) std::this_thread::yield();
}

std::vector<int> LocalExchange::missing() const {
  const std::lock_guard lock(mutex_);
  std::vector<int> result;
  for (std::size_t i = 0; i < ranks_.size(); ++i) {
    if (!members_[i].has_joined) result.push_back(ranks_[i]);
  }
  return result;
}

}  // namespace llmtrain
