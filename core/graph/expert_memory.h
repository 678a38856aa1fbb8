// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/operator_writer.h"

namespace llmtrain {

// Whether rows go to other ranks and come from there, and whether they go to the experts through other ranks.
bool exchanges_rows(const OperatorWriter& writer);
bool relays_rows(const OperatorWriter& writer);

// Bytes of all parts of a rank's rows on their way through the experts.
struct RowBytes {
  double own = 0, places = 0;             // rows that are sent, and that the experts compute
  double hidden = 0, kept_activated = 0;  // of the experts' networks: the activation's input, and its kept output
};

struct WorkingBytes {
  double forward = 0, backward = 0;
};

// Working memory around the experts' networks, beside the gradient of the activation's input: the most of the planned
// exchange and of those that a run may try in its place.
WorkingBytes working_bytes(const OperatorWriter& writer, const RowBytes& rows);

}  // namespace llmtrain
