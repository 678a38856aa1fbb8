// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "core/base/batch_field.h"
#include "core/graph/graph.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

std::span<const BlockField> fields_of(const Block& block);

// For each field, by index_of(), whether somebody reads it.
using FieldSet = std::array<bool, batch_field_names.size()>;
inline constexpr FieldSet all_fields = [] {
  FieldSet all{};
  all.fill(true);
  return all;
}();
// By some of the graph's blocks.
FieldSet fields_read(const Graph& graph, std::span<const std::size_t> blocks);

// What samples of the recipe's data have.
std::vector<BatchField> sample_fields(const DataRecipe& data);

// The fields that blocks of the graph need and samples do not have, a reason each: "targets, which …".
std::vector<std::string> missing_fields(const Graph& graph, std::span<const BatchField> sampled);

}  // namespace llmtrain
