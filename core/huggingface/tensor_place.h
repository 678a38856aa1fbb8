// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

namespace llmtrain {

// The tensor in which transformers keeps the parameters of a local name; the first {} stands for the layer's index, the
// second one for the expert's.
struct TensorPlace {
  enum class Storage { plain, transposed };

  std::string_view parameter;
  std::string_view name;
  Storage storage = Storage::plain;
};

}  // namespace llmtrain
