// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operators/expert_exchanges.h"

namespace llmtrain {

// Whether rows go to other ranks and come from there.
bool exchanges_rows(const OperatorWriter& writer);

// Bytes of the experts' networks, of all parts of a rank's rows: the activation's input, and its kept output.
struct NetworkBytes {
  double hidden = 0, kept_activated = 0;
};

struct WorkingBytes {
  double forward = 0, backward = 0;
};

// Working memory around the experts' networks, beside the gradient of the activation's input: the most of the planned
// exchange and of those that a run may try in its place.
WorkingBytes working_bytes(const OperatorWriter& writer, const RoutedRows& rows, const NetworkBytes& networks);

}  // namespace llmtrain
