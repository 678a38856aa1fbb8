// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/body.h"
#include "core/graph/operators/operators.h"

namespace llmtrain {

// What a body costs one rank: each step is an operator, called as its result, and each kept tensor is saved by the
// first step whose backward reads it (core/body/kept_tensors.h). Working memory is what steps have made and others
// still read, in the backward the gradients likewise, and of a parameter its gradient before it is added. `element`:
// bytes of activations. At Recompute::selective a body keeps what is costly, at higher levels its inputs. Steps that
// run in pieces (body::Chunked) are operators each, which the backward runs again at every level; the last has the
// memory.
OperatorList priced(const body::Body& body, double element);

}  // namespace llmtrain
