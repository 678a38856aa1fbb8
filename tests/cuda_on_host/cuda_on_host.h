// SPDX-License-Identifier: Apache-2.0
// What the source of a CUDA kernel finds where the compiler is not nvcc: CUDA's words as nothing or as names of the
// emulated device, CUDA's number types from its own headers, and its functions. For sources of kernels alone, as the
// words are macros; what launches them includes machine/launch.h.
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <vector_functions.h>
#include <vector_types.h>

// CUDA's headers define these for the host's compiler too.
#undef __global__
#undef __device__
#undef __host__
#undef __launch_bounds__
#undef __forceinline__
#define __global__
#define __device__
#define __host__
#define __launch_bounds__(...)
#define __forceinline__ inline

#include "tests/cuda_on_host/language/atomics.h"
#include "tests/cuda_on_host/language/intrinsics.h"
#include "tests/cuda_on_host/language/memory.h"
#include "tests/cuda_on_host/language/threads.h"
#include "tests/cuda_on_host/language/warp.h"
#include "tests/cuda_on_host/machine/queue.h"
