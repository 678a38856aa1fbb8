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

// What a group is used for. Backends that connect the ranks of a group in advance do so only for this use.
enum class GroupUse {
  collectives,    // of all members, for whose results computation waits soon
  background,     // collectives that go on beside computation: they do not hold up those of other groups
  messages_on,    // from each position to the next, cyclically
  messages_back,  // from each position to the one before, cyclically
  control         // Purpose::control alone
};

// Who is in a group: plain data, which may outlive the group and its communicator.
struct GroupMembers {
  std::string name;        // for messages
  std::vector<int> ranks;  // world ranks, by position

  std::string description() const;  // "tensor [2 3]"
};

// A set of ranks that communicate with each other, from the view of one of them. Created by Communicator::make_group();
// copies share the state. Positions in the group start at 0, in the order of `ranks()`.
class Group {
 public:
  // A backend's data of a group; backends derive from it.
  struct State {
    State(std::string name, std::vector<int> ranks, int given_position)
        : members(std::make_shared<const GroupMembers>(GroupMembers{std::move(name), std::move(ranks)})),
          position(given_position) {}
    virtual ~State() = default;
    State(const State&) = delete;
    State& operator=(const State&) = delete;

    const std::vector<int>& ranks() const { return members->ranks; }

    const std::shared_ptr<const GroupMembers> members;
    const int position;
  };

  Group() = default;
  explicit Group(std::shared_ptr<State> state) : state_(std::move(state)) {}

  bool is_valid() const { return state_ != nullptr; }
  int size() const { return static_cast<int>(ranks().size()); }
  int position() const { return state_->position; }                  // of this rank
  const std::vector<int>& ranks() const { return state_->ranks(); }  // world ranks, by position
  int rank_at(int position) const { return ranks()[static_cast<std::size_t>(position)]; }
  const std::shared_ptr<const GroupMembers>& members() const { return state_->members; }
  std::string description() const { return members()->description(); }
  State& state() const { return *state_; }

 private:
  std::shared_ptr<State> state_;
};

// What logs and messages say of an operation: plain data, so that remembering it keeps no group, and with it no
// connection and no communicator, in existence.
struct OperationSummary {
  Collective collective = Collective::barrier;
  Purpose purpose = Purpose::control;
  ElementType type = ElementType::uint8;
  std::int64_t total_count = 0;  // as Request::total_count()
  int peer = -1;                 // as Request::peer
  std::shared_ptr<const GroupMembers> group;

  // Whether completing it proves that this rank of the world was alive.
  bool involves(int rank) const;
  // "send of 1024 bf16 to rank 3 for pipeline in group pipeline [1 3]"
  std::string description() const;
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
  OperationSummary summary() const;
  std::string description() const { return summary().description(); }
};

}  // namespace llmtrain
