// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "core/huggingface/weight_source.h"

namespace llmtrain {

// Where transformers keeps several matrices as one, below each other, PEFT has one adapter to all of them, and the
// Graph one to each that is adapted. n adapters of rank r are one of rank n · r: their A below each other, and their B
// each in its matrix's rows and its own columns, among zeros.

// The tensors of PEFT's adapter to a module, in the types of the weights.
struct ModuleAdapter {
  at::Tensor a;          // [rank, input]
  at::Tensor b;          // [rows of all matrices, rank]
  at::Tensor magnitude;  // with DoRA, fp32 [rows of all matrices]
};

// How many of the matrices, indices into Graph::parameters, have adapters.
std::int64_t count_adapted(const std::vector<std::size_t>& matrices, const Graph& graph);
std::int64_t count_rows(const std::vector<std::size_t>& matrices, const Graph& graph);

// Reads lengths of rows of the matrices for magnitudes alone.
ModuleAdapter joined_adapter(const std::vector<std::size_t>& matrices, const Graph& graph, const WeightSource& weights);

// The other way round, into `weights`: of an adapter of as many columns as joined_adapter() gives them, or of the
// recipe's rank, whose A each matrix gets then. Magnitudes stay whole. False, where B changes what the Graph does not:
// rows of a matrix without an adapter, or columns that another one has.
bool split_adapter(const ModuleAdapter& adapter, const std::vector<std::size_t>& matrices, const Graph& graph,
                   NamedWeights& weights);

}  // namespace llmtrain
