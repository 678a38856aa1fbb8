// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/pass_setting.h"
#include "parallel/layout/mesh.h"

namespace llmtrain {

// Memory that a rank takes whatever the model: one set of constants for all recipes.

// CUDA: context, modules and library workspaces of a process on one device. CPU: the program with LibTorch loaded.
double framework_bytes(KernelSet kernels);

// Channel buffers and staging of the collectives, for each kind of group that has more than one rank, and those of
// point-to-point transfers between pipeline ranks. On the CPU ranks copy between tensors and need none.
double communicator_bytes(KernelSet kernels, const Mesh& mesh);

}  // namespace llmtrain
