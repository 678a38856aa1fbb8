// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "core/body/body_writer.h"

namespace llmtrain::body {

// A linear layer along the axes `from` of x: they become `to`, behind all others. Its parameters are
// "<name>.weight" [to, from] and, where it has one, "<name>.bias" [to]. Axes that `to` and `from` would share are none.
struct Linear {
  std::string name;
  std::vector<AxisId> from, to;
  bool has_bias = true;
};
TensorId write_linear(BodyWriter& writer, const Linear& linear, TensorId x);

// A norm along the last axis, or a group norm of images. Its parameters are "<name>.weight" and, but without mean,
// "<name>.bias"; its result is called "<name>".
TensorId write_norm(BodyWriter& writer, const std::string& name, const Norm& norm, TensorId x);

// Dropout called "<name>.dropout", of which its mask depends; x itself where nothing is dropped.
TensorId write_dropout(BodyWriter& writer, const std::string& name, double probability, TensorId x);

}  // namespace llmtrain::body
