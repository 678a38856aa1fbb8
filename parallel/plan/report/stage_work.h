// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace llmtrain {

// How the times of a step's instructions come about: their operators and collectives as the cost model prices them.

// An operator or a collective, with all that are like it in the same instruction.
struct PricedWork {
  enum class Unit { flops, bytes };

  std::string name;        // "feed_forward.up", "all gather of activations"
  std::int64_t count = 1;  // how many there are
  double seconds = 0;      // of all of them, each on its own; 0 where it depends on the rank
  std::string shape{};     // "4096 × 14336 × 8192", "8 ranks"
  double amount = 0;       // FLOPs of each, or bytes that it reads and writes or sends
  Unit unit = Unit::bytes;
  double peak = 0;        // what the hardware does of these in a second
  double efficiency = 0;  // the part of it that is planned; 0: not stated
  // How near the efficiency is to a measurement of this operator alone: "measured", "interpolated", "extrapolated",
  // with "borrowed from DEVICE" where another device was measured; empty where it follows from fitted rates.
  std::string basis{};
  std::string source{};  // whose numbers price it, a key of StageWork::sources; empty: nobody's
};

// The work of one instruction of each kind, the longest first.
struct WorkOfStage {
  std::vector<PricedWork> forward, backward;  // of a pass
  std::vector<PricedWork> gather, reduction;  // of weights and gradients, whole
};

struct StageWork {
  std::vector<WorkOfStage> kinds;              // of stages with different blocks
  std::vector<std::size_t> kind_of;            // by stage
  std::vector<PricedWork> transfer;            // of what crosses the widest cut between stages
  std::map<std::string, std::string> sources;  // by section of the profile: the origin of its numbers
};

}  // namespace llmtrain
