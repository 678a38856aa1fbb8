// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "parallel/comm/request.h"

namespace llmtrain {

// A part of an operation that one thread does alone, without a look at the others: no two pieces of an operation write
// the same bytes, and none reads what another one writes.
struct Piece {
  int from = -1;                  // position whose input is read; -1: everybody's
  int to = -1;                    // position whose output is written; -1: everybody's
  std::int64_t input_begin = 0;   // elements
  std::int64_t output_begin = 0;  // elements
  std::int64_t count = 0;         // elements
};

// Why the members' requests, by position, are not the same operation; empty when they are. Of a message the sender's
// is first, the receiver's second.
std::string mismatch(const std::vector<Request>& requests);

// All of the operation; in order they finish memory from the front.
std::vector<Piece> split_into_pieces(const std::vector<Request>& requests);

void do_piece(const std::vector<Request>& requests, const Piece& piece);

}  // namespace llmtrain
