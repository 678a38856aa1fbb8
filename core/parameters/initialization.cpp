// SPDX-License-Identifier: Apache-2.0
#include "core/parameters/initialization.h"

#include <numeric>
#include <vector>

#include "core/base/hash.h"
#include "kernels/random.h"

namespace llmtrain {
namespace {

// A stream per name: adding or moving parameters does not change the others' values.
std::uint64_t stream_key(std::int64_t seed, const std::string& name) {
  return stable_hash(std::to_string(seed) + "/" + name);
}

// Distance in elements between consecutive indices of each axis.
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

// `box` begins at element `first` of a tensor with these strides.
void fill_box(at::Tensor box, const std::int64_t* strides, std::int64_t first, std::uint64_t key, double deviation) {
  if (box.dim() > 2) {
    // Experts: one matrix after another.
    for (std::int64_t i = 0; i < box.size(0); ++i)
      fill_box(box.select(0, i), strides + 1, first + i * strides[0], key, deviation);
    // A part of each row, from a split by input features: rows are apart in the whole tensor. Otherwise all elements
    // are consecutive there.
  } else if (box.dim() == 2 && box.size(1) < strides[0]) {
    kernels::fill_normal_block_(box, key, deviation, first, strides[0]);
  } else {
    kernels::fill_normal_(box, key, deviation, first);
  }
}

// `weights` has the part's shape.
void fill_normal(const at::Tensor& weights, const Parameter& parameter, const LocalPart& part, std::uint64_t key) {
  const auto strides = strides_of(parameter.shape);
  const std::int64_t first = std::inner_product(strides.begin(), strides.end(), part.offset.begin(), std::int64_t{0});
  const std::int64_t real = part.real_shape[0];
  if (real > 0) fill_box(weights.narrow(0, 0, real), strides.data(), first, key, parameter.standard_deviation);
  weights.narrow(0, real, part.shape[0] - real).zero_();
}

}  // namespace

void initialize_weights(const at::Tensor& flat, const ParameterStore& store, const Graph& graph, std::int64_t seed) {
  for (const FlatRange& range : store.ranges()) {
    const Parameter& parameter = graph.parameters[range.parameter];
    at::Tensor weights = flat.slice(0, range.begin, range.end);
    switch (parameter.initialization) {
      case Initialization::zeros:
        weights.zero_();
        break;
      case Initialization::ones:
        weights.fill_(1);
        break;
      case Initialization::normal: {
        // Only the rank's part is generated: elements are random-access in their stream.
        const LocalPart& part = store.part(range.parameter);
        fill_normal(weights.view(part.shape), parameter, part, stream_key(seed, parameter.name));
        break;
      }
    }
  }
}

}  // namespace llmtrain
