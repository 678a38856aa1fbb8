// SPDX-License-Identifier: Apache-2.0
// What tensor ranks owe each other of their gradients, parameter by parameter.
#include "parallel/shard/states/sharded_parameters.h"

#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <string>
#include <vector>

#include "tests/parallel/shard/shard_rank.h"

namespace llmtrain::test {
namespace {

Recipe tensor_recipe(std::int64_t tensor, bool splits_sequence) {
  Recipe recipe = small_recipe();
  recipe.model.heads = 4;
  recipe.model.kv_heads = 2;
  recipe.model.qk_norm = true;
  recipe.parallel.tensor = tensor;
  recipe.parallel.sequence = splits_sequence;
  return recipe;
}

bool has(const std::string& name, const std::string& part) { return name.find(part) != std::string::npos; }

// Parameters that every tensor rank holds whole.
bool is_whole(const std::string& name) {
  return has(name, "norm") || has(name, "position") || has(name, "output.bias") || has(name, "down.bias");
}

// Every rank starts with its own digit to the base 8.
double digit(std::int64_t rank) { return std::pow(8.0, static_cast<double>(rank)); }

double expected_sum(const std::string& name, std::int64_t rank, std::int64_t ranks, bool splits_sequence) {
  double all = 0;
  for (std::int64_t i = 0; i < ranks; ++i) all += digit(i);
  if (has(name, "query_norm") || has(name, "key_norm")) return all;
  if (is_whole(name)) return splits_sequence ? all : digit(rank);
  const bool is_of_keys = has(name, "attention.key.") || has(name, "attention.value.");
  if (is_of_keys && ranks == 4) return digit(rank / 2 * 2) + digit(rank / 2 * 2 + 1);  // two ranks a head
  return digit(rank);
}

at::Tensor summed(ShardRank& rank, const FlatInterval& owned) {
  const at::Tensor flat = at::full({owned.count()}, digit(rank.groups.tensor.position()), at::kFloat);
  TensorGradients(rank.graph, rank.store, rank.groups.tensor, owned).sum(flat);
  return flat;
}

}  // namespace

TEST_CASE("tensor ranks sum what each has made a part of, and nothing else", "[ranks]") {
  for (const std::int64_t ranks : {2, 4}) {
    for (const bool splits_sequence : {false, true}) {
      const Recipe recipe = tensor_recipe(ranks, splits_sequence);
      struct Result {
        std::vector<FlatRange> ranges;
        FlatInterval some;
        at::Tensor whole, part;
      };
      const auto results = on_ranks(recipe, static_cast<int>(ranks), [&](ShardRank& rank) {
        const FlatInterval all{0, rank.store.elements()}, some{31, all.end - 17};
        return Result{rank.store.ranges(), some, summed(rank, all), summed(rank, some)};
      });
      const Graph graph = Graph::build(recipe.model);
      for (std::int64_t position = 0; position < ranks; ++position) {
        const Result& result = results[static_cast<std::size_t>(position)];
        for (const FlatRange& range : result.ranges) {
          const std::string& name = graph.parameters[range.parameter].name;
          INFO(name << ", rank " << position << " of " << ranks << (splits_sequence ? ", split sequences" : ""));
          const double expected = expected_sum(name, position, ranks, splits_sequence);
          CHECK(result.whole.slice(0, range.begin, range.end).eq(expected).all().item<bool>());
        }
        // A rank that owns a part of the states sums that part.
        CHECK(result.part.equal(result.whole.slice(0, result.some.begin, result.some.end)));
      }
    }
  }
}

TEST_CASE("over all tensor ranks the squared norm has each element of the model once", "[ranks]") {
  for (const std::int64_t ranks : {1, 2, 4}) {
    const Recipe recipe = tensor_recipe(ranks, false);
    INFO(ranks << " ranks");
    const auto parts = on_ranks(recipe, static_cast<int>(ranks), [](ShardRank& rank) {
      const FlatInterval all{0, rank.store.elements()}, first{0, 41}, rest{41, all.end};
      const at::Tensor flat = at::zeros({all.count()});
      // Padding of the vocabulary has no gradient.
      for (const FlatRange& range : rank.store.ranges())
        flat.narrow(0, range.begin, rank.store.part(range.parameter).real_elements()).fill_(1);
      const TensorGradients gradients(rank.graph, rank.store, rank.groups.tensor, all);
      const auto squares = [&](const FlatInterval& part) { return gradients.squares(flat, part).item<double>(); };
      return std::pair(squares(all), squares(first) + squares(rest));
    });
    double whole = 0, in_two = 0;
    for (const auto& [of_all, of_parts] : parts) whole += of_all, in_two += of_parts;
    CHECK(whole == static_cast<double>(Graph::build(recipe.model).parameter_count()));
    CHECK(in_two == whole);
  }
}

// Tensor and data ranks together: what data ranks have summed, tensor ranks sum on the shard that each owns.
TEST_CASE("collect() sums over the tensor ranks what was reduced over the data ranks", "[ranks]") {
  for (std::int64_t stage = 0; stage <= 3; ++stage) {
    INFO("ZeRO-" << stage);
    Recipe recipe = tensor_recipe(2, true);
    recipe.parallel.zero_stage = stage;
    recipe.training.optimizer.beta1 = 0;
    struct Result {
      std::int64_t tensor = 0;
      Part part;
      std::vector<FlatRange> ranges;
    };
    const auto results = on_ranks(recipe, 4, [](ShardRank& rank) {
      const std::int64_t tensor = rank.groups.tensor.position(), data = rank.groups.data.position();
      reduce_gradients(rank, at::full({rank.store.elements()}, digit(2 * data + tensor), at::kFloat));
      rank.parameters.update(0, 1, 1);
      return Result{tensor,
                    {rank.parameters.owned(), rank.parameters.optimizer_states().front().values.clone()},
                    rank.store.ranges()};
    });
    const Graph graph = Graph::build(recipe.model);
    for (std::int64_t tensor = 0; tensor < 2; ++tensor) {
      std::vector<Part> parts;
      for (const Result& result : results)
        if (result.tensor == tensor) parts.push_back(result.part);
      const std::vector<FlatRange>& ranges = results.front().ranges;
      const at::Tensor all = join(parts, ranges.back().end);
      for (const FlatRange& range : ranges) {
        const std::string& name = graph.parameters[range.parameter].name;
        INFO(name);
        const double expected = expected_sum(name, tensor, 2, true) * (1 + 64);
        CHECK(all.slice(0, range.begin, range.end).eq(expected).all().item<bool>());
      }
    }
  }
}

}  // namespace llmtrain::test
