// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/graph/pass_setting.h"
#include "parallel/layout/mesh.h"

namespace llmtrain {

// Memory that a rank takes independent of the model: one set of constants for all recipes.

// CUDA: context, modules and library workspaces of a process on one device. CPU: the program with LibTorch loaded.
double framework_bytes(KernelSet kernels);

// Channel and staging buffers of the collectives, per kind of group that has more than one rank, and of point-to-point
// transfers between pipeline ranks. 0 on the CPU, where ranks copy between tensors directly.
double communicator_bytes(KernelSet kernels, const Mesh& mesh);

}  // namespace llmtrain
