// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>

namespace llmtrain {

// The wires over which a rank sends: the links to the other ranks of its node, and its share of the node's adapters.
// Seconds for which something occupies them with its bytes, at the bandwidth that it reaches there on its own:
// latencies and the host's time are not in it.
struct WireSeconds {
  double links = 0;
  double adapters = 0;

  WireSeconds& operator+=(const WireSeconds& other) {
    links += other.links;
    adapters += other.adapters;
    return *this;
  }
  friend WireSeconds operator*(WireSeconds wires, double times) {
    return {wires.links * times, wires.adapters * times};
  }

  double longest() const { return std::max(links, adapters); }
};

// The parts of the time of a pass, a collective or a transfer in which it occupies the wires: 0 to 1.
struct WireShares {
  double links = 0;
  double adapters = 0;
};

inline WireShares wire_shares(const WireSeconds& wires, double seconds) {
  if (seconds <= 0) return {};
  return {std::min(1.0, wires.links / seconds), std::min(1.0, wires.adapters / seconds)};
}

// How much longer each of two takes for every second that both run: wires give each of them half of their bandwidth
// while both want it.
inline double contention(const WireShares& one, const WireShares& other) {
  return one.links * other.links + one.adapters * other.adapters;
}

// A pass and a collective that run beside each other, in seconds for each second that the collective takes alone: how
// long both run, and how much of the pass is done meanwhile. They take turns on their wires. `slowdown`, 0 to 1, is
// that of computation, so that it does not add to the wait for the whole collective.
struct Beside {
  double took = 1;
  double progress = 1;
};
inline Beside beside(double contention, double slowdown) {
  return {1 + contention, std::max(1 - slowdown, contention)};
}

}  // namespace llmtrain
