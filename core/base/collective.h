// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace llmtrain {

// Why something is sent: the plan and the run count bytes by it.
enum class Purpose { data_parallel, tensor_parallel, pipeline, expert, context, control };

// What is sent. The plan's "send_receive" is `send` here: bytes count where they leave.
enum class Collective { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send, receive, barrier };

// How values of several ranks become one. Sums of integers wrap. In max and min a NaN wins.
enum class Reduction { sum, max, min };

std::string_view purpose_name(Purpose purpose);
std::string_view collective_name(Collective collective);

// The bytes that one of `ranks` ranks sends by the ring algorithm for a tensor of `bytes` (of all ranks together, for
// those that gather or scatter): all_reduce 2(n−1)/n, all_gather, reduce_scatter and all_to_all (n−1)/n of it. A
// message counts whole, a broadcast whole where it starts; receive and barrier 0. One rank alone sends nothing.
double ring_bytes(Collective collective, std::int64_t ranks, double bytes);

}  // namespace llmtrain
