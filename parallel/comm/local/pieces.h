// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/comm/request.h"

namespace llmtrain {

// A part of an operation that one thread executes without synchronisation: no two pieces of an operation write the same
// bytes, and none reads what another one writes.
struct Piece {
  int from = -1;                  // position whose input is read; -1: all
  int to = -1;                    // position whose output is written; -1: all
  std::int64_t input_begin = 0;   // elements
  std::int64_t output_begin = 0;  // elements
  std::int64_t count = 0;         // elements
};

// The reason why the members' requests, by position, are not the same operation; empty if they are. For a message the
// sender's request comes first, the receiver's second.
std::string mismatch(const std::vector<Request>& requests);

// The pieces of the whole operation, in ascending order of addresses.
std::vector<Piece> split_into_pieces(const std::vector<Request>& requests);

void do_piece(const std::vector<Request>& requests, const Piece& piece);

}  // namespace llmtrain
