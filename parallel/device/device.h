// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <c10/core/Device.h>

#include <array>
#include <cstdint>
#include <string>

#include "core/recipe/recipe.h"

namespace llmtrain {

// The device that the recipe requests: "auto" is a GPU if there is one, else the CPU. Loads the CUDA part of the
// runtime if it is needed. Ranks of one node take its GPUs in turn: `local_rank` is the rank's index on its node.
// Throws Error(bad_recipe) with the reason if "cuda" is requested and there is no GPU.
c10::Device choose_device(DeviceKind kind, std::int64_t local_rank = 0);

// The reason why choose_device() finds no GPU; empty if it finds one.
std::string reason_without_gpu();

// The GPUs that this process sees. Loads the CUDA part of the runtime.
int gpu_count();

// Makes `device` the calling thread's current device. Threads start on the first GPU, where every process that uses it
// allocates a CUDA context; call this before the thread's first GPU work.
void use_device(const c10::Device& device);

// From now on matrix products of fp32 on GPUs are in TF32, or exact again (precision.tf32). Of the whole process.
void allow_tf32(bool is_allowed);

// A GPU's UUID, the same in all processes that see it.
std::array<unsigned char, 16> gpu_id(const c10::Device& device);

// Returns the cudaStream_t on which the calling thread enqueues its work.
using StreamOfThread = void* (*)(int device);
StreamOfThread gpu_compute_stream();

// "CPU, 2 threads, AVX-512", or the GPU's name, memory and index.
std::string describe_device(const c10::Device& device);

// The first GPU's name and memory, or the reason why there is none. Loads the CUDA part of the runtime.
std::string describe_gpu();

// Sets the process up for training; call it once, before the first tensor. Each rank gets OMP_NUM_THREADS threads, else
// an equal part of the processors that this process may use, which `ranks` share. Large tensors on the CPU are then
// blocks of a pool (cpu_allocator.h), because a step frees and allocates the same ones again.
void prepare_process(std::int64_t ranks = 1);
// Gives the calling thread, which is another rank of the process, the same number of threads.
void prepare_rank_thread();

// Blocks until the device has completed all work enqueued on it.
void synchronize(const c10::Device& device);

// Peak bytes of the process: resident memory, or on a GPU what LibTorch has allocated.
std::int64_t memory_peak(const c10::Device& device);

}  // namespace llmtrain
