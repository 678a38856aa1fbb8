// SPDX-License-Identifier: Apache-2.0
#include "core/graph/operators/operator_writer.h"

namespace llmtrain {

// The kept rows are taken out of the layer's input, and what the layer makes of them replaces them in a copy of it; the
// backward does the same with gradients, in place.
void write_token_dropping(OperatorWriter& writer, const LocalShape& whole) {
  const double kept = 2 * writer.shape().residual();
  Operator& item = writer.elementwise("token_dropping.rows", 2 * kept + 2 * whole.residual(), 2 * kept);
  item.forward_working = whole.element * whole.residual();
  item.backward_working = whole.element * whole.residual();
}

}  // namespace llmtrain
