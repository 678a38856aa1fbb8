// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

namespace llmtrain {

// Where tests let a rank fail, or change its memory.
enum class FaultPlace { recipe, data, load, forward, collective, save, commit, weights, gradients, evaluation, memory };

// Fails here if the environment's LLMTRAIN_FAULT requests it, as "ACTION:PLACE:RANK:STEP", say "fail:save:1:20"; steps
// count from 1, and 0 is before the first. ACTION: `fail` throws the Error that a failure of this place has, `throw` an
// exception that nobody expects, `stall` never returns, `kill` ends the process by SIGKILL, `stop` sends it SIGTERM, a
// request to stop. Three change
// `memory`, here of fp32 or bf16 and little-endian: `flip` the lowest bit of its first element, `nan` makes an element
// not a number and `spike` 2^20. `grow` does nothing here (has_grown()). Any thread may call this.
// Throws Error(bad_recipe) for a request that cannot be read.
//
// In a build without tests this does nothing, and the variable is not read.
void fault_point(FaultPlace place, std::int64_t rank, std::int64_t step, std::span<std::byte> memory = {});

// Whether fault_point() does something here.
bool has_fault(FaultPlace place, std::int64_t rank, std::int64_t step);

// Whether "grow:memory:RANK:STEP" is requested, by which the rank's steps take more memory from this one on, or from an
// earlier one.
bool has_grown(std::int64_t rank, std::int64_t step);

}  // namespace llmtrain
