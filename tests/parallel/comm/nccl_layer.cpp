// SPDX-License-Identifier: Apache-2.0
// The suite's values are on emulated GPUs, which NCCL connects by its own names.
#include "tests/parallel/comm/nccl_layer.h"

#include "parallel/comm/local/local_world.h"
#include "parallel/runtime/parts.h"
#include "tests/emulator/device/runtime.h"
#include "tests/parallel/comm/device_layer.h"
#include "tests/parallel/comm/numbers.h"
#include "tests/parallel/comm/rank_harness.h"

namespace llmtrain::test {
namespace {

void* compute_stream(int device) { return emulated::current_stream(device); }

}  // namespace

std::shared_ptr<Communicator> connect_over_nccl(std::shared_ptr<Communicator> host, const c10::Device& device) {
  const NcclJoin join{.host = staged_on_emulated_device(std::move(host), device),
                      .watchdog_seconds = 60,
                      .device = device.index(),
                      .compute_stream = compute_stream};
  return join_nccl(join);
}

void on_gpus(int ranks, const std::function<void(Communicator&, const c10::Device&)>& work) {
  LocalWorld world(ranks);
  world.run([&](Communicator& local) {
    const c10::Device device(c10::kCUDA, static_cast<c10::DeviceIndex>(local.rank()));
    emulated::exchange_device(local.rank());
    const auto communicator = connect_over_nccl({&local, [](Communicator*) {}}, device);
    work(*communicator, device);
  });
}

std::shared_ptr<Communicator> with_layer(std::shared_ptr<Communicator> backend) {
  return on_emulated_device(std::move(backend), connect_over_nccl);
}

std::vector<int> thread_counts() { return {2, 3}; }

Memory values_memory() { return Memory::device; }

}  // namespace llmtrain::test
