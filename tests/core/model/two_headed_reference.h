// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/ATen.h>

#include <cstdint>
#include <optional>
#include <string>

#include "core/model/pass/batch.h"
#include "tests/core/graph/two_headed_graph.h"
#include "tests/core/model/reference_model.h"

namespace llmtrain::test {

// The losses of all rows [T] of a batch in float64, 0 where they do not count; autograd follows them to the parameters.
struct TwoLosses {
  at::Tensor first, second;
};

// What two_headed_graph() with this layer is to give, by the parameters' names in it.
inline TwoLosses two_headed_losses(const ModelRecipe& model, const NamedTensors& parameters, const Batch& batch,
                                   std::optional<std::int64_t> read_layer = {}) {
  // The second head's under the names of the only one that the reference model knows.
  NamedTensors of_second = parameters;
  const std::string prefix = "second.";
  for (const auto& [name, tensor] : parameters)
    if (name.starts_with(prefix)) of_second[name.substr(prefix.size())] = tensor;
  const ReferenceModel one(model, parameters), two(model, of_second);
  const auto by_sequence = [&](BatchField field) {
    return batch.field(field).view({batch.sequences().count, batch.sequences().length});
  };
  at::Tensor x = one.embed(by_sequence(BatchField::token_ids)), read_by_second;
  for (std::int64_t layer = 0; layer < model.layers; ++layer) {
    x = one.layer(layer, x);
    if (layer == read_layer.value_or(model.layers - 1)) read_by_second = x;
  }
  const at::Tensor targets = by_sequence(BatchField::targets);
  TwoLosses losses{one.losses(x, targets).flatten(), two.losses(read_by_second, targets).flatten()};
  const at::Tensor& counted = batch.field(BatchField::counted_rows);
  if (!counted.defined()) return losses;
  const at::Tensor mask = at::zeros_like(losses.first).index_fill(0, counted, 1);
  return {losses.first * mask, losses.second * mask};
}

}  // namespace llmtrain::test
