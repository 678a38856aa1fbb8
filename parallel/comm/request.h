// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "core/base/collective.h"
#include "core/base/element_type.h"

namespace llmtrain {

// Where memory is: on the host or on the rank's GPU.
enum class Memory { host, device };

// Memory that a Communicator reads or writes; owned by the caller. No alignment is required.
struct ConstArray {
  const void* data = nullptr;
  std::int64_t count = 0;  // elements
  ElementType type = ElementType::uint8;
  Memory memory = Memory::host;
};

struct Array {
  void* data = nullptr;
  std::int64_t count = 0;  // elements
  ElementType type = ElementType::uint8;
  Memory memory = Memory::host;

  operator ConstArray() const { return {data, count, type, memory}; }
};

// What a group is used for. Backends that connect the ranks of a group in advance do so only for this use: collectives
// of all members, messages between neighbours (position ± 1, cyclically), or only control exchanges (Purpose::control).
enum class GroupUse { collectives, messages, control };

// A set of ranks that communicate with each other, from the view of one of them. Created by Communicator::make_group();
// copies share the state. Positions in the group start at 0, in the order of `ranks()`.
class Group {
 public:
  // A backend's data of a group; backends derive from it.
  struct State {
    State(std::string given_name, std::vector<int> given_ranks, int given_position)
        : name(std::move(given_name)), ranks(std::move(given_ranks)), position(given_position) {}
    virtual ~State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    const std::string name;  // for messages
    const std::vector<int> ranks;
    const int position;
  };

  Group() = default;
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}

  bool is_valid() const { return state_ != nullptr; }
  int size() const { return static_cast<int>(state_->ranks.size()); }
  int position() const { return state_->position; }                // of this rank
  const std::vector<int>& ranks() const { return state_->ranks; }  // world ranks, by position
  int rank_at(int position) const { return state_->ranks[static_cast<std::size_t>(position)]; }
  std::string description() const;  // "tensor [2 3]"
  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

// One operation of one rank, as passed to a backend: validated, with everything that its execution needs.
struct Request {
  Collective collective = Collective::barrier;
  Purpose purpose = Purpose::control;
  Group group;
  ElementType type = ElementType::uint8;
  Memory memory = Memory::host;  // of both, input and output
  Reduction reduction = Reduction::sum;
  const void* input = nullptr;
  void* output = nullptr;
  // Elements: all of them for all_reduce, broadcast and messages, one rank's part for all_gather and reduce_scatter.
  std::int64_t count = 0;
  int peer = -1;  // position of a broadcast's root, or of a message's other side
  // all_to_all only: elements sent to and received from each position, contiguous in `input` and `output`.
  std::vector<std::int64_t> input_counts;
  std::vector<std::int64_t> output_counts;

  bool is_message() const { return collective == Collective::send || collective == Collective::receive; }
  std::int64_t bytes() const { return count * element_size(type); }  // of `count` elements
  const std::byte* input_at(std::int64_t element) const;
  std::byte* output_at(std::int64_t element) const;
  // Throws Error(internal_error) for device memory; for backends that take only host memory.
  void require_host_memory() const;
  // Elements of all ranks together; for all_to_all those that this rank sends.
  std::int64_t total_count() const;
  // Bytes that this rank sends with the ring algorithm; for all_to_all the bytes that it sends to others.
  double ring_bytes() const;
  // "send of 1024 bf16 to rank 3 for pipeline in group pipeline [1 3]"
  std::string description() const;
};

}  // namespace llmtrain
