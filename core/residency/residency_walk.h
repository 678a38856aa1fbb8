// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <vector>

#include "core/residency/access_sequence.h"
#include "core/residency/residency_plan.h"
#include "core/residency/residency_policy.h"

namespace llmtrain {

// Goes through a sequence task by task and writes down the moves that a policy makes.
class ResidencyWalk {
 public:
  // The sequence outlives the walk.
  ResidencyWalk(const AccessSequence& sequence, std::int64_t budget, const ResidencyPolicy& policy,
                std::vector<DeviceTensor> start);
  ResidencyPlan run();

 private:
  static constexpr std::size_t never = std::numeric_limits<std::size_t>::max();

  struct State {
    bool is_here = false;     // on the device
    bool is_dirty = false;    // of the device's copy
    bool is_on_host = false;  // the newest version is
    std::int64_t last_use = 0;
    std::size_t pinned_by = never;  // the task that must find it
  };

  void run_on_host(std::size_t index, TaskMoves& moves);
  // Whether so many bytes more leave room for all later tasks of the step.
  bool leaves_room(std::int64_t bytes, std::size_t index) const;
  void run_on_device(std::size_t index, TaskMoves& moves);
  void release_unused(std::size_t index, std::vector<Move>& moves);
  void prefetch(std::size_t index, std::vector<Move>& moves);
  void finish_uses(std::size_t index);
  // Whether the host uses the tensor between two tasks of the device.
  bool is_used_by_host(std::size_t tensor, std::size_t from, std::size_t to) const;
  // The next task of the device that uses it, counted over the steps to come; never: none does.
  std::size_t next_use(std::size_t tensor, std::size_t after) const;
  // The tensor that leaves next, of those without a pin; none: there is none.
  std::optional<std::size_t> victim(std::size_t index) const;
  double worth_of_leaving(std::size_t tensor, std::size_t index) const;
  void make_room(std::int64_t bytes, std::size_t index, std::vector<Move>& moves);
  void evict(std::size_t tensor, std::vector<Move>& moves);
  void fetch(std::size_t tensor, std::vector<Move>& moves);
  void come(std::size_t tensor);
  void leave(std::size_t tensor);
  std::int64_t bytes_of(std::size_t tensor) const { return sequence_.tensors[tensor].bytes; }

  const AccessSequence& sequence_;
  std::int64_t budget_;
  ResidencyPolicy policy_;
  std::vector<State> states_;                   // by tensor
  std::vector<std::vector<std::size_t>> uses_;  // by tensor: tasks of the device, ascending
  std::int64_t held_ = 0;                       // bytes on the device, without working memory
  ResidencyPlan plan_;
};

}  // namespace llmtrain
