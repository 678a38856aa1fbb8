// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

namespace llmtrain {

// What moves between a rank's device and its host around the instructions of a step: the interface between policies of
// memory, which write it, and the simulator, which reads it.

enum class CopyLane : std::uint8_t {
  to_device,
  to_host,
  host_work,  // no copy: what the host's processor does with what has come, such as an update
  returning,  // to the device, once all of the host's work is done that was issued before; no instruction waits for it
};
constexpr std::size_t copy_lanes = 4;

struct Copy {
  CopyLane lane{};
  double seconds = 0;  // if nothing moves in the other direction
};

struct InstructionCopies {
  std::vector<Copy> before;  // begin when the rank comes to the instruction, which waits for them
  std::vector<Copy> beside;  // begin with the instruction
  // Whether the instruction takes memory of what copies to the host, issued by earlier instructions, give back.
  bool waits_for_room = false;
};

struct StepCopies {
  std::vector<std::vector<InstructionCopies>> ranks;  // by pipeline rank and instruction; empty: nothing moves
  double contention = 0;  // part of its rate that either direction loses while both move, 0 to below 1
};

}  // namespace llmtrain
