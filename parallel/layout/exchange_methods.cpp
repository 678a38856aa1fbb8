// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/exchange_methods.h"

#include <algorithm>

namespace llmtrain {
namespace {

// The fewest rows of a bucket, as in Tutel, and the most buckets: ranks tell each other about all of them in each step.
constexpr std::int64_t least_bucket_rows = 128, most_buckets = 16;

// Choices of a token are different experts, so that none gets more rows of a rank than it has tokens.
std::int64_t most_rows(const Recipe& recipe, const Mesh& mesh) {
  const std::int64_t tokens = recipe.batch.micro * recipe.batch.sequence_length, ranks = mesh.context * mesh.tensor;
  return (tokens + ranks - 1) / ranks;
}

std::vector<ExchangeMethod> candidates(const ParallelRecipe& parallel, const Mesh& mesh) {
  std::vector<std::int64_t> parts(automatic_parts.begin(), automatic_parts.end());
  if (parallel.expert_overlap) parts = {*parallel.expert_overlap};
  if (mesh.expert == 1) parts = {1};
  std::vector<AllToAll> exchanges{parallel.expert_all_to_all};
  if (parallel.expert_all_to_all == AllToAll::automatic) {
    exchanges = {AllToAll::linear};
    if (can_relay_rows(mesh)) exchanges.push_back(AllToAll::hierarchical);
  }
  std::vector<ExchangeMethod> methods;
  for (const std::int64_t number : parts)
    for (const AllToAll exchange : exchanges) methods.push_back({number, exchange});
  return methods;
}

}  // namespace

std::size_t ExchangeMethods::bucket_of(std::int64_t rows) const {
  return std::min(static_cast<std::size_t>(rows / bucket_rows), of_buckets.size() - 1);
}

ExchangeMethods exchange_methods(const Recipe& recipe, const Mesh& mesh) {
  ExchangeMethods result;
  if (!recipe.model.moe) return result;
  const std::vector<ExchangeMethod> methods = candidates(recipe.parallel, mesh);
  result.planned = methods.front();
  if (methods.size() == 1) return result;
  const std::int64_t most = most_rows(recipe, mesh);
  result.bucket_rows = std::max(least_bucket_rows, most / most_buckets + 1);
  result.of_buckets.assign(static_cast<std::size_t>(most / result.bucket_rows + 1), methods);
  return result;
}

std::int64_t relaying_ranks(const Mesh& mesh, AllToAll all_to_all) {
  return all_to_all == AllToAll::hierarchical ? expert_node_ranks(mesh) : 1;
}

}  // namespace llmtrain
