// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/residency/access_sequence.h"

namespace llmtrain {

enum class MoveKind : std::uint8_t {
  fetch,       // the host's contents come to the device
  write_back,  // the device's contents go to the host, and stay on the device as well
  release,     // the device's memory is given back
};

struct Move {
  MoveKind kind{};
  std::size_t tensor = 0;

  bool operator==(const Move&) const = default;
};

// The moves of each list are in their order: one that takes memory follows those that give it back.
struct TaskMoves {
  std::vector<Move> before;  // the task waits for all of them
  std::vector<Move> beside;  // begin with a task of the device, and the next one waits for them; follow one of the host
};

struct DeviceTensor {
  std::size_t tensor = 0;
  bool is_dirty = false;  // the host has older contents, or none

  bool operator==(const DeviceTensor&) const = default;
};

// One step. What is on the device when it begins and ends, each the longest unused first; all else of lasting tensors
// is on the host.
struct ResidencyPlan {
  std::vector<DeviceTensor> start, end;
  std::vector<TaskMoves> tasks;  // as many as the sequence has
  std::vector<Move> after;       // the last task
};

struct Traffic {
  std::int64_t fetched = 0, written_back = 0;  // bytes
  std::int64_t fetches = 0, write_backs = 0;   // moves

  std::int64_t bytes() const { return fetched + written_back; }
};

}  // namespace llmtrain
