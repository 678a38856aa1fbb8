# SPDX-License-Identifier: Apache-2.0
# Finds LibTorch: in the PyPI wheel that scripts/setup puts into .deps, or the standard LibTorch package on
# CMAKE_PREFIX_PATH. Makes two targets: libtorch (CPU: torch_cpu and c10 alone) and, where a CUDA toolkit and
# libtorch_cuda are found, libtorch_cuda.
file(GLOB wheel_roots ${CMAKE_SOURCE_DIR}/.deps/python/lib/python3*/site-packages/torch)
find_path(LIBTORCH_INCLUDE_DIR ATen/ATen.h HINTS ${CMAKE_PREFIX_PATH} ${wheel_roots} PATH_SUFFIXES include
  NO_CMAKE_SYSTEM_PATH)
find_library(LIBTORCH_CPU_LIBRARY torch_cpu HINTS ${CMAKE_PREFIX_PATH} ${wheel_roots} PATH_SUFFIXES lib
  NO_CMAKE_SYSTEM_PATH)
if(NOT LIBTORCH_INCLUDE_DIR OR NOT LIBTORCH_CPU_LIBRARY)
  message(FATAL_ERROR "LibTorch was not found. Run scripts/setup, or set CMAKE_PREFIX_PATH to a LibTorch 2.11 folder.")
endif()
get_filename_component(libtorch_folder ${LIBTORCH_CPU_LIBRARY} DIRECTORY)
cmake_path(IS_PREFIX CMAKE_SOURCE_DIR "${libtorch_folder}" NORMALIZE libtorch_is_in_tree)
if(libtorch_is_in_tree)
  # Also where the tree has been moved or copied to, with its build folder.
  file(RELATIVE_PATH libtorch_from_build ${CMAKE_BINARY_DIR} ${libtorch_folder})
  list(APPEND CMAKE_BUILD_RPATH "$ORIGIN/${libtorch_from_build}")
endif()

# The wheel ships newer fmt headers that clash with Debian's spdlog: its folders come after the system's.
add_library(libtorch INTERFACE)
# at::parallel_for is a template that runs serially, in silence, in a source that is compiled without OpenMP.
target_compile_options(libtorch INTERFACE -fopenmp -idirafter${LIBTORCH_INCLUDE_DIR}
  -idirafter${LIBTORCH_INCLUDE_DIR}/torch/csrc/api/include)
target_link_libraries(libtorch INTERFACE ${LIBTORCH_CPU_LIBRARY} ${libtorch_folder}/libc10.so -fopenmp)
# torch_cpu of the CUDA wheel wants libcudart and libcupti, which it finds by its own run path.
target_link_options(libtorch INTERFACE -Wl,--allow-shlib-undefined)

find_package(CUDAToolkit QUIET)
if(CUDAToolkit_FOUND AND EXISTS ${libtorch_folder}/libtorch_cuda.so)
  add_library(libtorch_cuda INTERFACE)
  target_include_directories(libtorch_cuda SYSTEM INTERFACE ${CUDAToolkit_INCLUDE_DIRS})
  target_link_libraries(libtorch_cuda INTERFACE libtorch -Wl,--no-as-needed ${libtorch_folder}/libtorch_cuda.so
    ${libtorch_folder}/libc10_cuda.so -Wl,--as-needed CUDA::cudart)
endif()
