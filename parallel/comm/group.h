// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace llmtrain {

// What a group is used for. Backends that connect the ranks of a group in advance do so only for this use: collectives
// of all members, messages between neighbours (position ± 1, cyclically), or only control exchanges (Purpose::control).
enum class GroupUse { collectives, messages, control };

// A set of ranks that communicate with each other, from the view of one of them. Created by Communicator::make_group();
// copies share the state. Positions in the group start at 0, in the order of `ranks()`.
class Group {
 public:
  // A backend's data of a group; backends derive from it.
  struct State {
    State(std::string given_name, std::vector<int> given_ranks, int given_position);
    virtual ~State();
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    const std::string name;
    const std::vector<int> ranks;
    const int position;
  };

  Group() = default;
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}

  bool is_valid() const { return state_ != nullptr; }
  int size() const { return static_cast<int>(state_->ranks.size()); }
  int position() const { return state_->position; }                // of this rank
  const std::vector<int>& ranks() const { return state_->ranks; }  // world ranks, by position
  const std::string& name() const { return state_->name; }         // for messages
  std::string description() const;                                 // "tensor [2 3]"
  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

}  // namespace llmtrain
