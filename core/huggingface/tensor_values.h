// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <string>

#include "core/graph/graph.h"
#include "core/huggingface/huggingface_tensors.h"
#include "core/huggingface/weight_source.h"

namespace llmtrain {

// A tensor of transformers as a whole, contiguous: its parameters joined, and transposed where it is. It is of no
// expert.
at::Tensor values_of(const HuggingfaceTensor& tensor, const Graph& graph, const WeightSource& weights);

// The other way round: adds the parameters of a tensor of transformers, of tensor.shape(graph), to `weights`.
void add_parameters(const HuggingfaceTensor& tensor, const Graph& graph, const at::Tensor& values,
                    NamedWeights& weights);

// The Euclidean length of each row of a matrix [rows, columns]: fp32 [rows].
at::Tensor row_lengths(const at::Tensor& matrix);
// The same of a parameter, which is read as a whole.
at::Tensor row_lengths(const WeightSource& weights, const Parameter& matrix);

// The largest absolute value of a tensor of any floating-point type, on any device: 0 of an empty one, NaN where one
// is.
double largest_magnitude(const at::Tensor& values);

// Throws Error(bad_data) where a weight is NaN or infinite: no training leads away from it. `what` names the tensor and
// its file.
void require_finite(const at::Tensor& values, const std::string& what);

}  // namespace llmtrain
