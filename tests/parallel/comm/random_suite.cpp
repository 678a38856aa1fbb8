// SPDX-License-Identifier: Apache-2.0
#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <deque>
#include <random>

#include "tests/parallel/comm/numbers.h"
#include "tests/parallel/comm/rank_harness.h"

using namespace llmtrain;
using namespace llmtrain::test;

namespace {

// A sequence of operations that all ranks draw identically from one seed.
class Script {
 public:
  Script(Communicator& communicator, unsigned seed) : communicator_(communicator), random_(seed) {
    groups_.push_back(communicator.world());
    for (int i = 0; i < 3; ++i) add_group();
  }

  void run(int steps) {
    for (int step = 0; step < steps; ++step) {
      start(step);
      if (below(4) == 0) finish();
    }
    finish();
  }

 private:
  int below(int limit) { return static_cast<int>(random_() % static_cast<unsigned>(limit)); }

  // A random part of the world in random order; ranks outside it draw it too, but do not take part.
  void add_group() {
    std::vector<int> ranks = communicator_.world().ranks();
    std::shuffle(ranks.begin(), ranks.end(), random_);
    ranks.resize(static_cast<std::size_t>(1 + below(communicator_.size())));
    const bool is_member = std::find(ranks.begin(), ranks.end(), communicator_.rank()) != ranks.end();
    groups_.push_back(is_member ? communicator_.make_group("random", ranks) : Group());
    members_.push_back(static_cast<int>(ranks.size()));
  }

  void start(int step) {
    const auto index = static_cast<std::size_t>(below(static_cast<int>(groups_.size())));
    const ElementType type = all_types()[static_cast<std::size_t>(below(static_cast<int>(all_types().size())))];
    const std::int64_t count = below(3) == 0 ? below(60000) : below(40);
    const int kind = below(5);
    const int members = index == 0 ? communicator_.size() : members_[index - 1];
    const int root = below(members), other = below(members);
    const Group& group = groups_[index];
    if (!group.is_valid()) return;
    if (kind == 0) return all_reduce(group, type, count, step);
    if (kind == 1) return all_gather(group, type, count, step);
    if (kind == 2) return broadcast(group, type, count, root);
    if (kind == 3) return message(group, type, count, root, other);
    expectations_.emplace_back(type, 0);
    buffers_.emplace_back(type, 0);
    handles_.push_back(communicator_.barrier(group));
  }

  void all_reduce(const Group& group, ElementType type, std::int64_t count, int step) {
    Values& data = add_buffer(type, count);
    for (std::int64_t i = 0; i < count; ++i) {
      data.set(i, small_number(type, communicator_.rank() + step, i));
      double largest = -100;
      for (const int rank : group.ranks()) largest = std::max(largest, small_number(type, rank + step, i));
      expectations_.back().set(i, largest);
    }
    handles_.push_back(communicator_.all_reduce(group, Purpose::data_parallel, data.array(), Reduction::max));
  }

  void all_gather(const Group& group, ElementType type, std::int64_t count, int step) {
    Values& data = add_buffer(type, count * group.size());
    const std::int64_t begin = group.position() * count;
    for (int position = 0; position < group.size(); ++position) {
      const int rank = group.ranks()[static_cast<std::size_t>(position)];
      for (std::int64_t i = 0; i < count; ++i)
        expectations_.back().set(position * count + i, small_number(type, rank + step, i));
    }
    for (std::int64_t i = 0; i < count; ++i) data.set(begin + i, small_number(type, communicator_.rank() + step, i));
    handles_.push_back(
        communicator_.all_gather(group, Purpose::tensor_parallel, data.part(begin, count), data.array()));
  }

  void broadcast(const Group& group, ElementType type, std::int64_t count, int root) {
    Values& data = add_buffer(type, count);
    for (std::int64_t i = 0; i < count; ++i) {
      data.set(i, small_number(type, group.position(), i));
      expectations_.back().set(i, small_number(type, root, i));
    }
    handles_.push_back(communicator_.broadcast(group, Purpose::control, data.array(), root));
  }

  void message(const Group& group, ElementType type, std::int64_t count, int from, int to) {
    if (group.position() == from) {
      Values& data = add_buffer(type, count);
      for (std::int64_t i = 0; i < count; ++i) data.set(i, small_number(type, from, i));
      expectations_.back() = data;
      handles_.push_back(communicator_.send(group, Purpose::pipeline, data.array(), to));
    }
    if (group.position() == to) {
      Values& data = add_buffer(type, count);
      for (std::int64_t i = 0; i < count; ++i) expectations_.back().set(i, small_number(type, from, i));
      handles_.push_back(communicator_.receive(group, Purpose::pipeline, data.array(), from));
    }
  }

  Values& add_buffer(ElementType type, std::int64_t count) {
    expectations_.emplace_back(type, count);
    return buffers_.emplace_back(type, count);
  }

  // In a different order on each rank.
  void finish() {
    std::shuffle(handles_.begin(), handles_.end(), own_random_);
    for (Handle& handle : handles_) handle.wait();
    expect(buffers_ == expectations_, "values after a random sequence");
    handles_.clear();
    buffers_.clear();
    expectations_.clear();
  }

  Communicator& communicator_;
  std::mt19937 random_;
  std::mt19937 own_random_{static_cast<unsigned>(communicator_.rank())};
  std::vector<Group> groups_;
  std::vector<int> members_;
  std::deque<Values> buffers_, expectations_;
  std::vector<Handle> handles_;
};

}  // namespace

TEST_CASE("random sequences of operations on random groups give the right values") {
  // All ranks of an MPI world must use the same seeds.
  rc::detail::TestParams parameters;
  parameters.seed = 20240607;
  parameters.maxSuccess = 15;
  const auto property = [] {
    const unsigned seed = *rc::gen::arbitrary<unsigned>();
    const int steps = *rc::gen::inRange(1, 60);
    for (const int ranks : rank_counts())
      on_ranks(ranks, [=](Communicator& communicator) { Script(communicator, seed).run(steps); });
  };
  const auto result = rc::detail::checkTestable(property, rc::detail::TestMetadata(), parameters);
  INFO(result);
  CHECK(result.template is<rc::detail::SuccessResult>());
}
