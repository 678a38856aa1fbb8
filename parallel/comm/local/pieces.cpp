// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/local/pieces.h"

#include <algorithm>
#include <cstring>
#include <numeric>

#include "parallel/comm/reduction/ordered_reduction.h"

namespace llmtrain {
namespace {

// Elements per piece: small enough that the parts of several ranks stay in the second-level cache.
constexpr std::int64_t piece_elements = std::int64_t{1} << 15;

bool is_message(const Request& request) {
  return request.collective == Collective::send || request.collective == Collective::receive;
}

const void* input_of(const Request& request, std::int64_t element) {
  return static_cast<const std::byte*>(request.input) + element * element_size(request.type);
}

void* output_of(const Request& request, std::int64_t element) {
  return static_cast<std::byte*>(request.output) + element * element_size(request.type);
}

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
  const void* source = input_of(from, piece.input_begin);
  void* destination = output_of(to, piece.output_begin);
  // In-place operations share the memory of input and output.
  if (source != destination)
    std::memcpy(destination, source, static_cast<std::size_t>(piece.count * element_size(from.type)));
}

void reduce_piece(const std::vector<Request>& requests, const Piece& piece) {
  std::vector<const void*> sources;
  std::vector<void*> destinations;
  for (const Request& request : requests) sources.push_back(input_of(request, piece.input_begin));
  // A reduce_scatter writes to one rank, an all_reduce to all.
  if (piece.to >= 0) {
    destinations.push_back(output_of(requests[static_cast<std::size_t>(piece.to)], piece.output_begin));
  } else {
    for (const Request& request : requests) destinations.push_back(output_of(request, piece.output_begin));
  }
  const Request& first = requests.front();
  reduce_in_order({first.type, first.reduction, sources, destinations, piece.count});
}

std::string different(const Request& left, const Request& right) {
  return "rank " + std::to_string(left.group.ranks()[static_cast<std::size_t>(left.group.position())]) + " starts " +
         left.description() + " but rank " +
         std::to_string(right.group.ranks()[static_cast<std::size_t>(right.group.position())]) + " starts " +
         right.description() + "; they must agree";
}

// Only what must be equal: memory, addresses and purpose may differ between ranks.
bool agree(const Request& left, const Request& right) {
  if (left.type != right.type) return false;
  if (is_message(left)) return left.count == right.count;
  const bool is_same = left.collective == right.collective && left.peer == right.peer;
  return is_same && (left.collective == Collective::all_to_all ||
                     (left.count == right.count && left.reduction == right.reduction));
}

}  // namespace

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

}  // namespace llmtrain
