// SPDX-License-Identifier: Apache-2.0
// The connections that a plan counts are those that the ranks make.
#include "parallel/layout/connections.h"

#include <catch2/catch.hpp>
#include <mutex>
#include <set>

#include "parallel/comm/backend.h"
#include "parallel/comm/local/local_world.h"
#include "parallel/shard/rank_groups.h"

namespace llmtrain::test {
namespace {

using Made = std::set<Connection>;

// Notes what NCCL would connect a rank to: by the uses of its groups (parallel/comm/request.h).
class NotingCommunicator : public LayeredCommunicator {
 public:
  NotingCommunicator(std::shared_ptr<Communicator> host, Made& made)
      : LayeredCommunicator(std::move(host)), made_(made) {
    set_world(Group(std::make_shared<LayerGroup>(this->host()->world())));
  }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position,
                                           GroupUse use) override {
    if (ranks.size() > 1 && name == "pipeline copies") {
      made_.insert({Connection::Use::copies, ranks});
    } else if (ranks.size() > 1) {
      note(ranks, position, use);
    }
    return std::make_shared<LayerGroup>(host()->make_group(name, std::move(ranks), use));
  }

  void note(const std::vector<int>& ranks, int position, GroupUse use) {
    const auto size = static_cast<int>(ranks.size());
    const auto at = [&](int place) { return ranks[static_cast<std::size_t>((place + size) % size)]; };
    const int own = at(position), next = at(position + 1), previous = at(position - 1);
    switch (use) {
      case GroupUse::collectives:
        made_.insert({Connection::Use::computation, ranks});
        break;
      case GroupUse::background:
        made_.insert({Connection::Use::background, ranks});
        break;
      case GroupUse::messages_on:
        made_.insert({Connection::Use::activations, {own, next}});
        made_.insert({Connection::Use::activations, {previous, own}});
        break;
      case GroupUse::messages_back:
        made_.insert({Connection::Use::gradients, {own, previous}});
        made_.insert({Connection::Use::gradients, {next, own}});
        break;
      case GroupUse::control:
        break;
    }
  }

  std::shared_ptr<PendingOperation> start(Request request) override {
    return start_on(*host(), host_request(std::move(request)));
  }

  Made& made_;
};

struct Case {
  std::string name;
  int ranks;
  std::function<void(Recipe&)> change;
};

Recipe recipe_of(const Case& layout) {
  Recipe recipe;
  recipe.model.layers = 4;
  recipe.model.hidden_size = 32;
  recipe.model.heads = 4;
  recipe.model.kv_heads = 2;
  recipe.model.head_dim = 8;
  recipe.model.ffn_hidden_size = 64;
  recipe.model.vocab_size = 64;
  recipe.model.max_sequence_length = 16;
  recipe.batch.global = 8;
  recipe.batch.micro = 1;
  recipe.batch.sequence_length = 16;
  layout.change(recipe);
  return recipe;
}

void add_experts(Recipe& recipe) {
  recipe.model.moe = MixtureOfExpertsRecipe{};
  recipe.model.moe->experts = 4;
  recipe.model.moe->top_k = 2;
  recipe.model.moe->ffn_hidden_size = 64;
}

const std::vector<Case> cases{
    {"data", 4, [](Recipe& r) { r.parallel.zero_stage = 3; }},
    {"data, two sets of shards", 4,
     [](Recipe& r) {
       r.parallel.zero_stage = 1;
       r.parallel.zero_shard_ranks = 2;
     }},
    {"tensor", 4, [](Recipe& r) { r.parallel.tensor = 4; }},
    {"context and data", 4, [](Recipe& r) { r.parallel.context = 2; }},
    {"two stages", 2, [](Recipe& r) { r.parallel.pipeline = 2; }},
    {"four stages", 4,
     [](Recipe& r) {
       r.parallel.pipeline = 4;
       r.model.tie_embeddings = true;
     }},
    {"stages, tensor and data", 8,
     [](Recipe& r) {
       r.parallel.pipeline = 2;
       r.parallel.tensor = 2;
     }},
    {"experts", 4,
     [](Recipe& r) {
       add_experts(r);
       r.parallel.expert = 2;
     }},
    {"experts over nodes", 4,
     [](Recipe& r) {
       add_experts(r);
       r.parallel.expert = 4;
       r.parallel.expert_all_to_all = AllToAll::hierarchical;
     }},
    {"experts that tensor ranks split", 8,
     [](Recipe& r) {
       add_experts(r);
       r.parallel.tensor = 2;
       r.parallel.expert = 2;
       r.parallel.expert_tensor = 2;
     }},
};

}  // namespace

TEST_CASE("ranks connect what a plan counts, each set of ranks once for a use") {
  for (const Case& each : cases) {
    INFO(each.name);
    const std::int64_t per_node = each.name == "experts over nodes" ? 2 : each.ranks;
    Recipe recipe = recipe_of(each);
    recipe.cluster.nodes = each.ranks / per_node;
    recipe.launch.ranks = each.ranks;
    const Layout layout(Partition::make(recipe, per_node));
    std::vector<Made> made(static_cast<std::size_t>(each.ranks));
    LocalWorld world(each.ranks);
    world.run([&](Communicator& local) {
      NotingCommunicator communicator({&local, [](Communicator*) {}}, made[static_cast<std::size_t>(local.rank())]);
      const RankGroups groups(communicator, layout);
    });
    for (int rank = 0; rank < each.ranks; ++rank) {
      const std::vector<Connection> counted = connections_of(layout.partition(), rank);
      INFO("rank " << rank);
      const bool are_equal = Made(counted.begin(), counted.end()) == made[static_cast<std::size_t>(rank)];
      CHECK(are_equal);
    }
  }
}

}  // namespace llmtrain::test
