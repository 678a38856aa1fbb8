// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <vector>

#include "core/graph/graph.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/simulator/step_memory.h"

namespace llmtrain::test {

// A recipe with its mesh given explicitly, so that these tests need neither the reader nor the rules of the mesh.
struct MemoryCase {
  Recipe recipe;
  Mesh mesh;
  DeviceKind device = DeviceKind::cuda;  // on a GPU another program runs, on a CPU this one

  Graph graph() const { return Graph::build(recipe.model); }
  Partition partition() const { return Partition::on_mesh(recipe, mesh); }
  StepMemory memory() const;
};

// GPT-2's shapes in bf16 with fp32 gradients, one sequence per micro-batch, no dropout.
MemoryCase gpt_case(std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t vocabulary,
                    std::int64_t sequence);

// Most bytes on any pipeline rank under 1F1B, or with loops under Megatron's interleaved order (Narayanan et al.,
// arXiv 2104.04473), from the order of the passes alone.
double peak_bytes(const MemoryCase& memory_case);

}  // namespace llmtrain::test
