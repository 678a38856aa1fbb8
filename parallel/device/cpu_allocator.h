// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain {

// From now on LibTorch's large tensors on the CPU, of any thread, are blocks of a HostMemoryPool: a process then takes
// as much memory as its tensors need at once, and a step that repeats the one before asks the system for none. With
// malloc() freed tensors leave holes that aligned blocks of the same size do not fit into again, and a process takes
// up to twice what it needs. Tensors that exist already stay as they are. LibTorch's memory profiler is told of every
// tensor as before. Call it before other threads allocate; a second call does nothing. In sanitizer builds LibTorch
// goes on with malloc(), so that every tensor is a block which they watch.
void pool_cpu_tensors();

// The same, so that a StepArena (step_arena.h) has its thread's tensors; in sanitizer builds, too, where what has no
// place in one is malloc()'s as before.
void serve_arenas();

// Returns to the system what the pool keeps for later tensors.
void trim_cpu_tensors();

}  // namespace llmtrain
