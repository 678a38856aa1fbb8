// SPDX-License-Identifier: Apache-2.0
#include "core/graph/replayed_routing.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <set>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/graph/graph.h"
#include "core/graph/operators/operators.h"
#include "core/graph/operators/routed_load.h"
#include "tests/core/graph/models.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

using test::TemporaryDirectory;

ModelRecipe mixture(std::int64_t experts, std::int64_t top_k, std::int64_t every = 1) {
  ModelRecipe model = test::gpt2_model(4, 64, 4);
  model.moe = MixtureOfExpertsRecipe{.experts = experts, .top_k = top_k, .every = every, .ffn_hidden_size = 96};
  return model;
}

PassSetting setting_of(std::int64_t batch, std::int64_t sequence_length, std::int64_t expert_ranks) {
  PassSetting setting;
  setting.tokens.batch = batch;
  setting.tokens.sequence_length = sequence_length;
  setting.shards.expert = expert_ranks;
  return setting;
}

// How often each expert is among the choices of tokens first … first + count − 1.
std::vector<std::int64_t> counts_of(const SpreadChoices& choices, std::int64_t experts, std::int64_t top_k,
                                    std::int64_t first, std::int64_t count) {
  std::vector<std::int64_t> counts(static_cast<std::size_t>(experts), 0);
  std::vector<std::int64_t> chosen(static_cast<std::size_t>(top_k));
  for (std::int64_t token = first; token < first + count; ++token) {
    choices.choose(token, chosen);
    REQUIRE(std::set<std::int64_t>(chosen.begin(), chosen.end()).size() == chosen.size());
    for (const std::int64_t expert : chosen) ++counts.at(static_cast<std::size_t>(expert));
  }
  return counts;
}

std::string error_of(const ModelRecipe& model, ExitCode code) {
  try {
    const ReplayedRouting routing(model);
  } catch (const Error& error) {
    CHECK(error.code() == code);
    return error.what();
  }
  return "";
}

}  // namespace

TEST_CASE("shares follow the weights, and no expert gets more than all tokens") {
  CHECK(shares_by_weight(std::vector<double>{1, 1, 1, 1}, 2) == ExpertShares{0.5, 0.5, 0.5, 0.5});
  CHECK(shares_by_weight(std::vector<double>{3, 1, 0, 0}, 1) == ExpertShares{0.75, 0.25, 0, 0});
  // Every token takes the first as one of its two choices, the others share the rest by weight.
  CHECK(shares_by_weight(std::vector<double>{6, 1, 1, 0}, 2) == ExpertShares{1, 0.5, 0.5, 0});
  // Filling one fills the next.
  CHECK(shares_by_weight(std::vector<double>{100, 10, 1, 1}, 3) == ExpertShares{1, 1, 0.5, 0.5});
  CHECK(shares_by_weight(std::vector<double>{5, 0, 0}, 2) == ExpertShares{1, 0.5, 0.5});
}

TEST_CASE("every expert gets its share of a step to a token, and a token different experts") {
  for (const std::int64_t tokens : {1, 50, 64, 97, 360, 1023}) {
    for (const std::int64_t top_k : {1, 2, 3}) {
      const ExpertShares shares = shares_by_weight(std::vector<double>{9, 5, 3, 2, 1, 1, 0.1, 0}, top_k);
      const SpreadChoices choices(shares, tokens, top_k);
      const auto counts = counts_of(choices, 8, top_k, 0, tokens);
      CHECK(std::accumulate(counts.begin(), counts.end(), std::int64_t{0}) == tokens * top_k);
      for (std::size_t expert = 0; expert < 8; ++expert) {
        CHECK(counts[expert] == choices.count(expert));
        CHECK(std::abs(static_cast<double>(counts[expert]) - shares[expert] * static_cast<double>(tokens)) < 1);
      }
    }
  }
}

TEST_CASE("micro-batches and the ranks' parts of them have their part of an even routing exactly") {
  const SpreadChoices choices(shares_by_weight(std::vector<double>(8, 1), 2), 1024, 2);
  for (const std::int64_t length : {4, 32, 256})
    for (std::int64_t first = 0; first < 1024; first += length)
      CHECK(counts_of(choices, 8, 2, first, length) == std::vector<std::int64_t>(8, length / 4));
}

TEST_CASE("of an uneven routing they have it to a few tokens") {
  const ExpertShares shares = shares_by_weight(std::vector<double>{8, 4, 2, 1, 1, 1, 1, 1}, 2);
  const SpreadChoices choices(shares, 3 * 1024, 2);
  for (std::int64_t first = 0; first < 3 * 1024; first += 256) {
    const auto counts = counts_of(choices, 8, 2, first, 256);
    for (std::size_t expert = 0; expert < 8; ++expert)
      CHECK(std::abs(static_cast<double>(counts[expert]) - 256 * shares[expert]) <= 2);
  }
}

TEST_CASE("each expert is the first choice of its part of the tokens") {
  const SpreadChoices choices(shares_by_weight(std::vector<double>(4, 1), 2), 1000, 2);
  std::vector<std::int64_t> first(4, 0), chosen(2);
  for (std::int64_t token = 0; token < 1000; ++token) {
    choices.choose(token, chosen);
    ++first[static_cast<std::size_t>(chosen[0])];
  }
  for (const std::int64_t count : first) CHECK(std::abs(count - 250) <= 12);
}

TEST_CASE("a trace is replayed by step and layer, and planned by its median step") {
  const TemporaryDirectory folder;
  ModelRecipe model = mixture(2, 1, 2);
  model.moe->routing_trace = (folder.path() / "routing.jsonl").string();
  write_file_atomically(*model.moe->routing_trace,
                        "{\"step\":1,\"layer\":1,\"chosen\":[9,1]}\n{\"step\":1,\"layer\":3,\"chosen\":[5,5]}\n"
                        "{\"step\":2,\"layer\":1,\"chosen\":[5,5]}\n{\"step\":2,\"layer\":3,\"chosen\":[4,6]}\n"
                        "{\"step\":3,\"layer\":1,\"chosen\":[3,7]}\n{\"step\":3,\"layer\":3,\"chosen\":[0,10]}\n");
  const ReplayedRouting routing(model);
  CHECK(routing.shares(1, 0) == ExpertShares{0.9, 0.1});
  CHECK(routing.shares(1, 5) == ExpertShares{0.3, 0.7});
  CHECK(routing.shares(3, 3) == ExpertShares{0.5, 0.5});
  CHECK(routing.typical_shares(1) == ExpertShares{0.3, 0.7});
  CHECK(routing.typical_shares(3) == ExpertShares{0.4, 0.6});
  // Layers of different loads are not alike.
  const Graph graph = Graph::build_with_routing(model);
  CHECK(graph.blocks[4].alike == 4);
  CHECK(graph.blocks[3].alike == 1);
}

TEST_CASE("a trace that cannot be replayed is refused with its line") {
  const TemporaryDirectory folder;
  ModelRecipe model = mixture(2, 1, 2);
  model.moe->routing_trace = (folder.path() / "routing.jsonl").string();
  CHECK_THAT(error_of(model, ExitCode::missing_input), Catch::Contains("routing_trace"));
  const std::string good = "{\"step\":1,\"layer\":1,\"chosen\":[9,1]}\n";
  for (const auto& [text, what] : std::vector<std::pair<std::string, std::string>>{
           {good + "nothing\n", "line 2 has no"},
           {good + "{\"layer\":3,\"chosen\":[1,-1]}\n", "line 2 has no"},
           {good + "{\"layer\":2,\"chosen\":[1,1]}\n", "line 2 is of layer 2"},
           {good + "{\"layer\":3,\"chosen\":[1,1,1]}\n", "line 2 counts 3 experts, and model.moe.experts is 2"},
           {good, "without layer 3"}}) {
    write_file_atomically(*model.moe->routing_trace, text);
    CHECK_THAT(error_of(model, ExitCode::bad_data), Catch::Contains(what));
  }
}

// Zipf's law with exponent 1 over four experts: 12, 6, 4 and 3 of 25 parts.
TEST_CASE("a plan's busiest rank computes its share of all ranks' rows, and sends and waits for it") {
  ModelRecipe model = mixture(4, 1);
  model.moe->capacity_factor = 0;
  model.moe->routing_zipf = 1;
  const Graph graph = Graph::build_with_routing(model);
  const PassSetting setting = setting_of(1, 100, 2);
  const RoutedLoad load = routed_load(graph, 1, setting.tokens.all(), setting.shards.expert);
  CHECK(load.kept == Approx(1));
  CHECK(load.busiest == Approx(18.0 / 25));
  CHECK(load.fullest == Approx(12.0 / 25));
  CHECK(idle_ranks(graph, 1, setting.tokens, setting.shards) == 0);
  const OperatorList operators = block_operators(graph, 1, setting);
  const auto row = [&](const std::string& name) {
    return *std::ranges::find_if(operators, [&](const Operator& item) { return item.name.ends_with(name); });
  };
  CHECK(row("routed.up").product.rows * row("routed.up").product.batch == Approx(2 * 72));
  const double bytes = 4.0 * 64;  // of a row
  const auto sent = [&](const Operator& item) { return item.exchanges.front(); };
  // 28 rows of its own go to the other rank, and half of a two-rank tensor is what one sends; 72 come from there.
  CHECK(sent(row("dispatch")).bytes / 2 == Approx(28 * bytes));
  CHECK(sent(row("combine")).bytes / 2 == Approx(72 * bytes));
  CHECK(sent(row("dispatch")).waited_bytes / 2 == Approx(72 * bytes));
  // With a capacity of 25 tokens the first expert loses 23 of 48.
  model.moe->capacity_factor = 1;
  const RoutedLoad limited =
      routed_load(Graph::build_with_routing(model), 1, setting.tokens.all(), setting.shards.expert);
  CHECK(limited.kept == Approx(0.77));
  CHECK(limited.busiest == Approx(0.49 / 0.77));
}

// The same law over eight experts: 840, 420, 280, 210, 168, 140, 120 and 105 of 2283 parts. Of two ranks on each of two
// nodes the first has two experts with 1260 parts, the others 490, 308 and 225.
TEST_CASE("a plan's hierarchical exchange takes rows through the rank that has the place of the busiest on its node") {
  ModelRecipe model = mixture(8, 1);
  model.moe->capacity_factor = 0;
  model.moe->routing_zipf = 1;
  const Graph graph = Graph::build_with_routing(model);
  PassSetting setting = setting_of(1, 100, 4);
  setting.exchange.node_ranks = 2;
  const PlaceShares places = place_shares(routed_load(graph, 1, setting.tokens.all(), setting.shards.expert), 2);
  CHECK(places.of_busiest == Approx(1568.0 / 2283));
  CHECK(places.fullest == Approx(1568.0 / 2283));
  const OperatorList operators = block_operators(graph, 1, setting);
  const auto row = [&](const std::string& name) {
    return *std::ranges::find_if(operators, [&](const Operator& item) { return item.name.ends_with(name); });
  };
  const auto sent = [&](const std::string& name, std::size_t step) { return row(name).exchanges.at(step); };
  // In both steps one sends half of a two-rank tensor. The busiest rank has 100 rows and sends those for the other
  // place; of the 2 · 100 rows of its node it then has those for its place, and sends those for the other node.
  const double part = 2 * 4.0 * 64 * 100 / 2283;
  CHECK(sent("dispatch", 0).axis == RankAxis::expert_inside);
  CHECK(sent("dispatch", 0).bytes == Approx((490 + 225) * part));
  CHECK(sent("dispatch", 0).waited_bytes == Approx(1568 * part));
  CHECK(sent("dispatch", 1).axis == RankAxis::expert_across);
  CHECK(sent("dispatch", 1).bytes == Approx(2 * 308 * part));
  CHECK(sent("dispatch", 1).waited_bytes == Approx(2 * 1260 * part));
  CHECK(sent("combine", 0).bytes == Approx(1568 * part));
  CHECK(sent("combine", 1).bytes == Approx(2 * 1260 * part));
  // In memory: rows that arrive, those of its node, and its own in the order in which they are sent; on the way back
  // without the latter and the layer's output. Of the experts, 96 columns wide, the backward needs the input's
  // gradient.
  CHECK(row("dispatch").backward_working ==
        Approx((2 * 1260 + 1568 + 2283.0 / 2) * part - 96.0 / 64 * 2 * 1260 * part));
  CHECK(row("dispatch").forward_working == Approx((2 * 1260 + 1568 - 2283.0 / 2) * part));
}

TEST_CASE("the fullest place need not be that of the busiest rank") {
  const RoutedLoad load{.kept = 1, .busiest = 0.4, .fullest = 0.4, .of_ranks = {0.4, 0.3, 0, 0.3}};
  CHECK(place_shares(load, 2).of_busiest == Approx(0.4));
  CHECK(place_shares(load, 2).fullest == Approx(0.6));
}

TEST_CASE("a replayed even routing is planned as an even one") {
  ModelRecipe model = mixture(8, 2);
  const PassSetting setting = setting_of(2, 64, 4);
  const OperatorList even = block_operators(Graph::build_with_routing(model), 1, setting);
  model.moe->routing_zipf = 0;
  const OperatorList replayed = block_operators(Graph::build_with_routing(model), 1, setting);
  REQUIRE(even.size() == replayed.size());
  for (std::size_t i = 0; i < even.size(); ++i) {
    CHECK(replayed[i].product.rows == Approx(even[i].product.rows));
    CHECK(replayed[i].forward_working == Approx(even[i].forward_working));
    for (std::size_t j = 0; j < even[i].exchanges.size(); ++j)
      CHECK(replayed[i].exchanges[j].bytes == Approx(even[i].exchanges[j].bytes));
  }
}

TEST_CASE("ranks without tokens are counted") {
  const TemporaryDirectory folder;
  ModelRecipe model = mixture(4, 1, 4);
  model.moe->routing_trace = (folder.path() / "routing.jsonl").string();
  write_file_atomically(*model.moe->routing_trace, "{\"step\":1,\"layer\":3,\"chosen\":[0,0,0,7]}\n");
  const PassSetting setting = setting_of(1, 16, 4);
  model.moe->capacity_factor = 0;
  const Graph graph = Graph::build_with_routing(model);
  CHECK(idle_ranks(graph, 4, setting.tokens, setting.shards) == 3);
  CHECK(routed_load(graph, 4, setting.tokens.all(), setting.shards.expert).busiest == 1);
}

TEST_CASE("so are ranks whose share of the tokens that meet is rounded to none") {
  ModelRecipe model = mixture(8, 1);
  model.moe->capacity_factor = 0;
  model.moe->routing_zipf = 100;
  const PassSetting eight = setting_of(1, 16, 8);
  CHECK(idle_ranks(Graph::build_with_routing(model), 1, eight.tokens, eight.shards) == 7);
  // Shares 0.849, 0.106, 0.031 and 0.013: of 32 tokens 27, 3, 1 and 1, of 8 tokens 7, 1, 0 and 0.
  model = mixture(4, 1);
  model.moe->capacity_factor = 0;
  model.moe->routing_zipf = 3;
  const Graph graph = Graph::build_with_routing(model);
  PassSetting setting = setting_of(1, 8, 4);
  CHECK(idle_ranks(graph, 1, setting.tokens, setting.shards) == 0);
  setting.shards.tensor = 4;  // each rank routes two
  CHECK(idle_ranks(graph, 1, setting.tokens, setting.shards) == 2);
  setting.shards.expert_tensor = 4;  // and computes those of four
  CHECK(idle_ranks(graph, 1, setting.tokens, setting.shards) == 0);
}

}  // namespace llmtrain
