// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain {

// Equal parts of work, one after another on a stream of computation, each of which arrives before and leaves after over
// one stream of communication: all arrivals are queued before the first part leaves (Hwang et al., arXiv 2206.03382,
// section 3.3). Seconds of one part.
struct PartSeconds {
  double arrival = 0;
  double compute = 0;
  double departure = 0;
};

// Seconds until the last part has left.
double two_stream_seconds(const PartSeconds& part, int parts);

}  // namespace llmtrain
