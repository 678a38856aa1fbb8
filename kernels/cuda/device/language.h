// SPDX-License-Identifier: Apache-2.0
// Included by every CUDA kernel. The few things for which CUDA has syntax of its own have names here, so that the same
// source is CUDA for nvcc and C++ for a host's compiler, which takes the rest from cuda_on_host.h: tests bring one
// (tests/cuda_on_host) and run kernels without a GPU.
#pragma once

#include <cstdint>

#ifdef __CUDACC__
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>

// Declares `name` as an array in the block's shared memory.
#define SHARED_ARRAY(type, name, count) __shared__ type name[count]

// Declares `name` as a pointer to the shared memory that the launch has asked for; aligned to 16 bytes.
#define DYNAMIC_SHARED(type, name)                                      \
  extern __shared__ __align__(16) unsigned char dynamic_shared_bytes[]; \
  auto* const name = reinterpret_cast<type*>(dynamic_shared_bytes)
#else
#include <cuda_on_host.h>

#define SHARED_ARRAY(type, name, count)      \
  static const char name##_tag = 0;          \
  auto& name = *static_cast<type(*)[count]>( \
      cuda_on_host::shared_memory(&name##_tag, sizeof(type[count]), alignof(type), cuda_on_host::Place::here()))
#define DYNAMIC_SHARED(type, name) auto* const name = static_cast<type*>(cuda_on_host::dynamic_shared_memory())
#endif
