# SPDX-License-Identifier: Apache-2.0
# nvcc, where a CUDA toolkit has one that works: CMAKE_CUDA_COMPILER is set there alone. It compiles the kernels for the
# GPUs named here; the sanitizers' builds have none of it.
if(CUDAToolkit_NVCC_EXECUTABLE AND NOT LLMTRAIN_SANITIZE)
  if(NOT DEFINED ENV{CUDACXX})
    set(ENV{CUDACXX} ${CUDAToolkit_NVCC_EXECUTABLE})
  endif()
  set(CMAKE_CUDA_ARCHITECTURES 80-real 90a-real 100-real)
  include(CheckLanguage)
  check_language(CUDA)
  if(CMAKE_CUDA_COMPILER)
    enable_language(CUDA)
    # CMake 3.25 does not know that nvcc does.
    if(NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
      set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION -std=c++20)
    endif()
  endif()
endif()
