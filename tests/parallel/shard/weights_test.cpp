// SPDX-License-Identifier: Apache-2.0
// Who owns which weights under ZeRO, and what the modules see of them.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <stdexcept>
#include <vector>

#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

// Each element has a value of its own, which bf16 cannot hold.
double value_of(std::int64_t element) { return 1 + 0.0011 * static_cast<double>(element); }

std::int64_t elements_of(const Recipe& recipe) { return Graph::build(recipe.model).parameter_count(); }

std::vector<ShardCase> cases_in_both_types() {
  std::vector<ShardCase> cases = shard_cases();
  for (ShardCase shards : shard_cases()) {
    shards.compute = DataType::bf16;
    cases.push_back(shards);
  }
  return cases;
}

void set_owned(ShardRank& rank, double factor) {
  const FlatInterval owned = rank.parameters.owned();
  rank.parameters.source().slice(0, 0, owned.count()).copy_(flat_of(owned.count(), [&](std::int64_t i) {
    return factor * value_of(owned.begin + i);
  }));
}

bool throws_out_of_range(const ParameterStore& store) {
  try {
    store.weight(store.ranges().front().parameter);
  } catch (const std::out_of_range&) {
    return true;
  }
  return false;
}

}  // namespace

TEST_CASE("the small model needs padding on every number of ranks") {
  for (const std::int64_t ranks : {2, 3, 4}) CHECK(elements_of(small_recipe()) % ranks != 0);
}

TEST_CASE("every element has as many owners as there are copies, and one rank that saves it", "[ranks]") {
  for (const ShardCase& shards : cases_in_both_types()) {
    INFO(shards.in_words());
    struct Places {
      FlatInterval owned, saved;
      std::int64_t source = 0;
    };
    const auto ranks = on_ranks(shards.recipe(), shards.ranks, [](ShardRank& rank) {
      return Places{rank.parameters.owned(), rank.parameters.saved(), rank.parameters.source().numel()};
    });
    const std::int64_t elements = elements_of(shards.recipe());
    std::vector<std::int64_t> owners(static_cast<std::size_t>(elements)), savers = owners;
    const std::int64_t copies = shards.zero_stage == 0 ? shards.ranks : shards.ranks / shards.shard_ranks;
    for (const Places& places : ranks) {
      CHECK(places.saved.count() <= (places.owned.count() + copies - 1) / copies);
      CHECK(places.source >= places.owned.count());
      for (std::int64_t i = places.owned.begin; i < places.owned.end; ++i) ++owners[static_cast<std::size_t>(i)];
      for (std::int64_t i = places.saved.begin; i < places.saved.end; ++i) {
        ++savers[static_cast<std::size_t>(i)];
        CHECK((i >= places.owned.begin && i < places.owned.end));
      }
    }
    CHECK(owners == std::vector<std::int64_t>(owners.size(), copies));
    CHECK(savers == std::vector<std::int64_t>(savers.size(), 1));
  }
}

TEST_CASE("every rank's modules see the weights of every owner, rounded to their type", "[ranks]") {
  for (const ShardCase& shards : cases_in_both_types()) {
    INFO(shards.in_words());
    const auto ranks = on_ranks(shards.recipe(), shards.ranks, [](ShardRank& rank) {
      set_owned(rank, 1);
      rank.parameters.publish();
      const at::Tensor first = gathered_weights(rank);
      // Once more: no rank keeps what it has seen before.
      set_owned(rank, -2);
      rank.parameters.publish();
      return std::vector<at::Tensor>{first, gathered_weights(rank)};
    });
    const auto type = shards.compute == DataType::bf16 ? at::kBFloat16 : at::kFloat;
    const at::Tensor expected = flat_of(elements_of(shards.recipe()), value_of);
    for (const std::vector<at::Tensor>& seen : ranks) {
      CHECK(seen[0].equal(expected.to(type).to(at::kFloat)));
      CHECK(seen[1].equal((expected * -2).to(type).to(at::kFloat)));
    }
  }
}

TEST_CASE("at stage 3 weights are here between gather and free, else always", "[ranks]") {
  for (const ShardCase& shards : shard_cases()) {
    INFO(shards.in_words());
    const auto ranks = on_ranks(shards.recipe(), shards.ranks, [](ShardRank& rank) {
      std::vector<bool> absent{throws_out_of_range(rank.store)};
      rank.parameters.gather();
      rank.parameters.finish_gather();
      absent.push_back(throws_out_of_range(rank.store));
      rank.parameters.free();
      absent.push_back(throws_out_of_range(rank.store));
      return absent;
    });
    const bool frees = shards.zero_stage == 3;
    for (const std::vector<bool>& absent : ranks) CHECK(absent == std::vector<bool>{frees, false, frees});
  }
}

TEST_CASE("first weights do not depend on who owns them", "[ranks]") {
  const auto initial = [](const ShardCase& shards) {
    return on_ranks(shards.recipe(), shards.ranks, [](ShardRank& rank) {
      rank.parameters.initialize(17);
      return gathered_weights(rank);
    });
  };
  for (const DataType compute : {DataType::fp32, DataType::bf16}) {
    const at::Tensor expected = initial({1, 0, 1, compute}).front();
    CHECK(expected.std().item<double>() > 0.01);
    for (ShardCase shards : shard_cases()) {
      shards.compute = compute;
      INFO(shards.in_words());
      for (const at::Tensor& seen : initial(shards)) CHECK(seen.equal(expected));
    }
  }
}

// Rajbhandari et al., arXiv 1910.02054, figure 1: what each stage shards.
TEST_CASE("each stage of ZeRO keeps less", "[ranks]") {
  for (const ShardCase& shards : cases_in_both_types()) {
    INFO(shards.in_words());
    const auto ranks = on_ranks(shards.recipe(), shards.ranks, [](ShardRank& rank) { return rank.parameters.bytes(); });
    const std::int64_t count = shards.zero_stage == 0 ? 1 : shards.shard_ranks;
    const std::int64_t shard = (elements_of(shards.recipe()) + count - 1) / count, whole = shard * count;
    const bool is_bf16 = shards.compute == DataType::bf16;
    const std::int64_t masters = is_bf16 ? 4 * shard : 0;
    for (const ShardedParameters::Bytes& bytes : ranks) {
      CHECK(bytes.weights == (shards.zero_stage == 3 ? shard : whole) * (is_bf16 ? 2 : 4) + masters);
      CHECK(bytes.gradients == (shards.zero_stage >= 2 ? shard : whole) * 4);
      CHECK(bytes.moments == shard * 8);
    }
  }
}

}  // namespace llmtrain::test
