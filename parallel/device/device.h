// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <string>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The device that the recipe asks for: "auto" is a GPU where there is one, else the CPU. Loads the CUDA part of the
// runtime when it is needed. Ranks of one node take its GPUs in turn: `local_rank` is the rank's number among them.
// Throws Error(bad_recipe) when "cuda" is asked for and there is none, with the reason.
c10::Device choose_device(DeviceKind kind, std::int64_t local_rank = 0);

// Why choose_device() finds no GPU; empty where it finds one.
std::string reason_without_gpu();

// The calling thread computes there from now on. Threads begin on the first GPU, which keeps memory for each process
// that comes near it.
void use_device(const c10::Device& device);

// A GPU's number in the world, the same for all processes that see it.
std::array<unsigned char, 16> gpu_id(const c10::Device& device);

// The cudaStream_t that a thread puts its work on.
using StreamOfThread = void* (*)(int device);
StreamOfThread gpu_compute_stream();

// "CPU, 2 threads, AVX-512" or the GPU's name, memory and number.
std::string describe_device(const c10::Device& device);

// The first GPU's name and memory, or why there is none. Loads the CUDA part of the runtime.
std::string describe_gpu();

// Sets the process up for training, once, before the first tensor: as many threads for each rank as OMP_NUM_THREADS
// says, else its part of the processors that this process may use, where `ranks` share them; and an allocator that
// keeps freed memory, because a step frees and takes the same large tensors again, and pages that come anew from the
// system must be cleared each time.
void prepare_process(std::int64_t ranks = 1);
// The same threads for another thread of the process, which is a rank of its own.
void prepare_rank_thread();

// Waits until the device has done all that was asked of it.
void synchronize(const c10::Device& device);

// Bytes that the process holds now and at its peak: resident memory, or what LibTorch allocated on the GPU.
std::int64_t memory_now(const c10::Device& device);
std::int64_t memory_peak(const c10::Device& device);

}  // namespace llmtrain
