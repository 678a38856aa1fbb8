// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/onednn/matmul.h"

// libllmtrain_onednn.so, which alone links oneDNN. LibTorch carries a oneDNN of its own; its C symbols are hidden, but
// the standard library's templates over oneDNN's types are not, and the loader would bind one library's calls to the
// other's copies. So this library is loaded with RTLD_DEEPBIND: oneDNN then sees its own symbols first.
extern "C" {

// Null on success, else the reason of the failure (valid until this thread's next call).
const char* llmtrain_onednn_matmul(const llmtrain::kernels::MatmulProblem* problem);

}  // extern "C"
