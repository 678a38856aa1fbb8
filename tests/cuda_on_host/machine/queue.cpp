// SPDX-License-Identifier: Apache-2.0
#include "tests/cuda_on_host/machine/queue.h"

namespace cuda_on_host {

Queue queue = [](void*, const NamedLaunch&, const void* parameters, std::size_t, std::function<void(const void*)> run) {
  run(parameters);
};

}  // namespace cuda_on_host
