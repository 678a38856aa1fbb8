// SPDX-License-Identifier: Apache-2.0
#include "parallel/plan/memory/overheads.h"

namespace llmtrain {

namespace {

// Fitted together to the peaks in the FP8-LM paper (arXiv 2310.18313, table 5, read from the device) and in the Zero
// Bubble paper (arXiv 2401.10241, table 4, read from the allocator).
constexpr double cuda_context_bytes = 0.8e9;
constexpr double collective_group_bytes = 2.0e9;
constexpr double transfer_bytes = 0.1e9;

// Resident size of the training program before its first tensor, 150 MB, plus freed blocks that its allocator keeps.
constexpr double cpu_program_bytes = 0.2e9;

}  // namespace

double framework_bytes(KernelSet kernels) {
  return kernels == KernelSet::cuda ? cuda_context_bytes : cpu_program_bytes;
}

double communicator_bytes(KernelSet kernels, const Mesh& mesh) {
  if (kernels == KernelSet::cpu) return 0;
  double bytes = mesh.pipeline > 1 ? transfer_bytes : 0;
  // One communicator per kind of group that has peers; pipeline neighbours only exchange point to point.
  for (const std::int64_t ranks : {mesh.tensor, mesh.context, mesh.data, mesh.expert})
    if (ranks > 1) bytes += collective_group_bytes;
  return bytes;
}

}  // namespace llmtrain
