// SPDX-License-Identifier: Apache-2.0
#include "core/model/initialization.h"

#include "core/base/hash.h"
#include "kernels/random.h"

namespace llmtrain {
namespace {

std::uint64_t stream_key(std::int64_t seed, const std::string& name) {
  return stable_hash(std::to_string(seed) + "/" + name);
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
      case Initialization::normal:
        kernels::fill_normal_(weights, stream_key(seed, parameter.name), parameter.standard_deviation);
        break;
    }
  }
}

}  // namespace llmtrain
