// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/body.h"
#include "core/body/pass_memory.h"

namespace llmtrain::body {

// The body with chains of element-wise functions, of which nothing else reads what is made on the way, as one step each
// (core/body/primitives/chains/elementwise_chain.h), where it then keeps fewer bytes for its backward: a chain that
// kept two tensors or more, none of which another step keeps, is left with one.
Body with_kept_derivatives(const Body& body, const ElementBytes& bytes);

// Bytes of all that a body keeps, its inputs too.
double kept_bytes(const Body& body, const ElementBytes& bytes);

}  // namespace llmtrain::body
