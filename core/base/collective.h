// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>

namespace llmtrain {

// Why data is sent: plans and runs count bytes per purpose.
enum class Purpose { data_parallel, tensor_parallel, pipeline, expert, context, control };

// The kind of communication. The plan's "send_receive" is `send` here: bytes are counted at the sender.
enum class Collective { all_reduce, all_gather, reduce_scatter, all_to_all, broadcast, send, receive, barrier };

// How values of several ranks are combined. Sums of integers wrap. In max and min a NaN wins.
enum class Reduction { sum, max, min };

std::string_view purpose_name(Purpose purpose);
std::string_view collective_name(Collective collective);

// Bytes that each of `ranks` ranks sends with the ring algorithm for a tensor of `bytes` (for gathers and scatters, of
// the whole tensor): all_reduce 2(n−1)/n, all_gather, reduce_scatter and all_to_all (n−1)/n of it. A send counts in
// full, a broadcast in full at its root, receive and barrier 0. A single rank sends nothing.
double ring_bytes(Collective collective, std::int64_t ranks, double bytes);

}  // namespace llmtrain
