// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <vector>

#include "core/graph/graph.h"

namespace llmtrain {

// What the products of a linear layer cast to FP8.
enum class Fp8Operand { input, weight, output_gradient };
constexpr std::size_t fp8_operands = 3;

// The linear layers that multiply FP8 at FP8 levels, each by the index of its first weight, in the order of the graph:
// query of query, key and value, and gate of gate and up stand for all that are multiplied as one matrix. Without
// those of experts, whose operands are scaled row by row.
std::vector<std::size_t> fp8_products(const Graph& graph);
// All matrices of layers that are trained and that levels above O0 store in FP8, those of experts among them.
std::vector<std::size_t> fp8_matrices(const Graph& graph);
// The one among the products that multiplies a matrix of a layer, by the matrix's index.
std::size_t fp8_product_of(const Graph& graph, std::size_t parameter);

}  // namespace llmtrain
