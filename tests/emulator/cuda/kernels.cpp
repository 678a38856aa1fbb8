// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/cuda/kernels.h"

#include <cstring>
#include <functional>
#include <string>
#include <utility>
#include <vector>

#include "kernels/cuda/all_kernels.h"
#include "tests/cuda_on_host/machine/queue.h"
#include "tests/emulator/device/runtime.h"

namespace emulated {
namespace {

void enqueue_kernel(void* stream, const cuda_on_host::NamedLaunch& launch, const void* parameters, std::size_t bytes,
                    std::function<void(const void*)> run) {
  std::vector<Access> accesses;
  for (std::size_t i = 0; i < launch.uses; ++i) {
    const auto& use = launch.memory[i];
    accesses.push_back({use.begin, use.bytes, use.is_write, use.is_update});
  }
  std::vector<std::uint64_t> words((bytes + 7) / 8);  // aligned as any plain struct
  std::memcpy(words.data(), parameters, bytes);
  enqueue(static_cast<Stream*>(stream), {launch.name, std::move(accesses), [words, bytes, run = std::move(run)] {
                                           std::vector<std::uint64_t> own = words;
                                           relocate(own.data(), bytes);
                                           run(own.data());
                                         }});
}

void* stream_of(int device) {
  cuda_on_host::queue = enqueue_kernel;
  return current_stream(device);
}

}  // namespace

const llmtrain::kernels::KernelTable table_of_kernels = llmtrain::kernels::all_kernels(stream_of);

}  // namespace emulated
