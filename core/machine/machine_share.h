// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmtrain {

// What one of several runs at a time gets of a machine; a run alone gets all.
struct MachineShare {
  std::optional<int> threads{};  // of each rank
  std::string gpus{};            // for CUDA_VISIBLE_DEVICES; empty: as it is
};

// How CUDA_VISIBLE_DEVICES would name each of the GPUs that a program sees with this value of it (null: not set) where
// the machine has `count`.
std::vector<std::string> visible_gpu_names(std::size_t count, const char* visible_devices);

// One for each of `jobs` runs at a time, of at most `ranks` ranks, of so many cores and the GPUs of these names. No two
// runs have a GPU in common. Throws Error(bad_recipe) that names --jobs where there are too few; no names mean that the
// runs are on the processor.
std::vector<MachineShare> machine_shares(std::int64_t jobs, std::int64_t ranks, int cores,
                                         const std::vector<std::string>& gpus);

}  // namespace llmtrain
