// SPDX-License-Identifier: Apache-2.0
#pragma once

// at::parallel_for is a template that silently runs serially in a source that is compiled without OpenMP.
#if !defined(_OPENMP)
#error "compile this source with -fopenmp (kernels/CMakeLists.txt)"
#endif

#include <ATen/Parallel.h>
