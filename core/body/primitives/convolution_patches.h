// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/body/primitives/convolution.h"

namespace llmtrain::body {

// Whether a convolution's windows lie beside one another and leave nothing out: it is then one product, of patches and
// kernels, before which the patches are copied to follow one another.
bool cuts_patches(const Convolution& convolution, const StepShape& shape);

}  // namespace llmtrain::body
