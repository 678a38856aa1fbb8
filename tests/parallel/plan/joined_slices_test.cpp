// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/joined_slices.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <vector>

#include "parallel/layout/layout.h"

namespace llmtrain {
namespace {

using Numbers = std::vector<std::int64_t>;

// Two experts, with biases; gated or not.
Recipe with_experts(Activation activation, std::int64_t width) {
  Recipe recipe;
  recipe.model.layers = 1;
  recipe.model.hidden_size = 6;
  recipe.model.vocab_size = 8;
  recipe.model.heads = recipe.model.kv_heads = 2;
  recipe.model.head_dim = 3;
  recipe.model.bias = true;
  recipe.model.activation = activation;
  recipe.model.moe = MixtureOfExpertsRecipe{};
  recipe.model.moe->experts = 2;
  recipe.model.moe->ffn_hidden_size = width;
  recipe.batch.global = 8;
  recipe.batch.micro = 1;
  recipe.parallel.zero_stage = 3;
  return recipe;
}

// A rank's part of the experts, by the order of ranks in mesh.h.
ShardPlace place_of(const Mesh& mesh, int rank) {
  const std::int64_t neighbours = mesh.neighbours(), groups = rank / neighbours;
  const std::int64_t further = groups / mesh.expert % (mesh.expert_slices() / neighbours);
  return {shard_degrees(mesh), rank % mesh.tensor, groups % mesh.expert, further * neighbours + rank % neighbours};
}

// Its elements, each by its index in the whole parameter, of all parameters one after another.
Numbers slice_of(const Graph& graph, const StateGroup& group, const ShardPlace& place) {
  Numbers elements;
  for (const std::size_t index : group.parameters) {
    const Parameter& parameter = graph.parameters[index];
    const LocalPart part = local_part(parameter, place);
    for (std::int64_t i = 0; i < part.elements(); ++i) {
      std::int64_t rest = i, stride = 1, element = 0;
      for (std::size_t axis = part.shape.size(); axis-- > 0;) {
        element += stride * (part.offset[axis] + rest % part.shape[axis]);
        rest /= part.shape[axis];
        stride *= parameter.shape[axis];
      }
      elements.push_back(element);
    }
  }
  return elements;
}

// What a rank gathers, and joins; padding has no element.
Numbers joined_on(const Graph& graph, const StateGroup& group, const Mesh& mesh, int rank) {
  Numbers packed;
  for (const int member : group_members(mesh_in_use(mesh), GroupKind::expert_shard, rank)) {
    Numbers slice = slice_of(graph, group, place_of(mesh, member));
    slice.resize(static_cast<std::size_t>(group.flat().padded()), -1);
    const std::vector<int> sharing = group_members(mesh, GroupKind::expert_shard, member);
    const auto shard = std::find(sharing.begin(), sharing.end(), member) - sharing.begin();
    const FlatInterval part = group.flat().padded_shard(shard);
    packed.insert(packed.end(), slice.begin() + part.begin, slice.begin() + part.end);
  }
  CHECK(static_cast<std::int64_t>(packed.size()) == group.whole());
  Numbers joined;
  for (const RowCopy& copy : joined_rows(graph, group, mesh, stored_parts(mesh, rank)))
    for (std::int64_t row = 0; row < copy.rows; ++row)
      for (std::int64_t i = 0; i < copy.length; ++i) {
        const auto to = static_cast<std::size_t>(copy.joined + row * copy.joined_stride + i);
        if (joined.size() <= to) joined.resize(to + 1, -1);
        joined[to] = packed[static_cast<std::size_t>(copy.packed + row * copy.length + i)];
      }
  return joined;
}

// Checks that all matrices of each expert have the same columns of its inner width in the same order, and returns them.
Numbers columns_on(const Graph& graph, const StateGroup& group, const Mesh& mesh, int rank) {
  const Numbers joined = joined_on(graph, group, mesh, rank);
  const std::int64_t width = graph.model.moe->ffn_hidden_size, own = width / mesh.expert_tensor;
  const std::int64_t first_expert = place_of(mesh, rank).expert * (graph.model.moe->experts / mesh.expert);
  Numbers columns(static_cast<std::size_t>(own), -1);
  std::size_t next = 0;
  bool agrees = true;
  for (const std::size_t index : group.parameters) {
    const Parameter& parameter = graph.parameters[index];
    const LocalPart part = local_part(parameter, {shard_degrees(mesh_in_use(mesh))});
    for (std::int64_t i = 0; i < part.elements(); ++i, ++next) {
      Numbers here(part.shape.size()), whole(part.shape.size());
      std::int64_t from = i, element = joined.at(next);
      for (std::size_t axis = part.shape.size(); axis-- > 0;) {
        here[axis] = from % part.shape[axis];
        whole[axis] = element % parameter.shape[axis];
        from /= part.shape[axis];
        element /= parameter.shape[axis];
      }
      agrees = agrees && whole[0] == first_expert + here[0];
      for (std::size_t axis = 1; axis < here.size(); ++axis) {
        const bool is_inner = parameter.shape[axis] == width;
        std::int64_t& column = columns[static_cast<std::size_t>(is_inner ? here[axis] : 0)];
        if (is_inner && column < 0) column = whole[axis];
        agrees = agrees && whole[axis] == (is_inner ? column : here[axis]);
      }
    }
  }
  CHECK(agrees);
  CHECK(next == joined.size());
  return columns;
}

}  // namespace

TEST_CASE("ranks join slices of experts so that those that split products have each column once") {
  for (const auto activation : {Activation::gelu_tanh, Activation::swiglu}) {
    for (const Mesh& mesh :
         {Mesh{.data = 4, .expert_joined = 4, .zero_shard = 4}, Mesh{.data = 8, .expert_joined = 2, .zero_shard = 8},
          Mesh{.context = 2, .data = 4, .expert = 2, .expert_joined = 2, .zero_shard = 4},
          Mesh{.tensor = 2, .data = 4, .expert_tensor = 4, .expert_joined = 2, .zero_shard = 4},
          Mesh{.tensor = 4, .data = 2, .expert_tensor = 2, .expert_joined = 4, .zero_shard = 2},
          Mesh{.data = 16, .expert = 2, .expert_tensor = 2, .expert_joined = 2, .zero_shard = 8},
          // More neighbours than split the products, and fewer.
          Mesh{.tensor = 4,
          .data = 4,
          .expert = 2,
          .expert_tensor = 2,
          .expert_joined = 4,
          .expert_neighbours = 4,
          .zero_shard = 4},
          Mesh{.tensor = 2,
          .data = 8,
          .expert = 2,
          .expert_tensor = 4,
          .expert_joined = 2,
          .expert_neighbours = 2,
          .zero_shard = 8}}) {
      const Partition partition = Partition::on_mesh(with_experts(activation, 8), mesh);
      for (const StateGroup& group : partition.groups[0]) {
        if (group.kind != StateGroup::Kind::experts) continue;
        for (int rank = 0; rank < mesh.world(); ++rank) {
          Numbers all;
          for (const int other : group_members(mesh_in_use(mesh), GroupKind::expert_tensor, rank)) {
            const Numbers columns = columns_on(*partition.graph, group, mesh, other);
            all.insert(all.end(), columns.begin(), columns.end());
          }
          std::sort(all.begin(), all.end());
          Numbers expected(8);
          std::iota(expected.begin(), expected.end(), 0);
          CHECK(all == expected);
        }
      }
    }
  }
}

}  // namespace llmtrain
