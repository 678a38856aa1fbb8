// SPDX-License-Identifier: Apache-2.0
// Where the kernels run that the project's own sources launch (kernels/cuda/device/launch.h).
#pragma once

#include <cstddef>
#include <functional>

#include "kernels/cuda/device/memory_use.h"
#include "tests/cuda_on_host/machine/launch.h"

namespace cuda_on_host {

struct NamedLaunch {
  const char* name;
  const llmtrain::kernels::MemoryUse* memory;  // `uses` of them, valid until the call returns
  std::size_t uses;
};

// Lets `run` run now or later with the `bytes` of parameters at `parameters`, or with a copy in which addresses are
// others.
using Queue = void (*)(void* stream, const NamedLaunch& launch, const void* parameters, std::size_t bytes,
                       std::function<void(const void* parameters)> run);

// Runs each launch at once, on the calling thread, unless set.
extern Queue queue;

template <class Parameters, class Run>
void enqueue(void* stream, const NamedLaunch& launch, const Parameters& parameters, Run run) {
  static_assert(std::is_trivially_copyable_v<Parameters>);
  queue(stream, launch, &parameters, sizeof parameters,
        [run](const void* given) { run(*static_cast<const Parameters*>(given)); });
}

}  // namespace cuda_on_host
