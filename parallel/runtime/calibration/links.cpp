// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/calibration/links.h"

#include <ATen/core/Tensor.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <numeric>

#include "parallel/comm/local/local_world.h"
#include "parallel/device/measurement.h"
#include "parallel/runtime/parts.h"
#include "parallel/runtime/rank_devices.h"

namespace llmtrain {
namespace {

// Bytes of an all-reduce on a large device: from where latency counts to where bandwidth does.
constexpr std::array<std::int64_t, 6> sizes{1 << 12, 1 << 14, 1 << 18, 1 << 22, 1 << 26, 1 << 28};

// The mean of several, started one after the other as a step does: all ranks take the same number.
double all_reduce_seconds(Communicator& communicator, const Group& group, const c10::Device& device,
                          std::int64_t bytes) {
  constexpr int repeats = 10;
  const at::Tensor data = random_operand({bytes / 2}, at::kBFloat16, device);
  const Array array{data.data_ptr(), data.numel(), ElementType::bfloat16, Memory::device};
  const auto run = [&](int times) {
    for (int i = 0; i < times; ++i) communicator.all_reduce(group, Purpose::data_parallel, array).wait();
    synchronize(device);
  };
  run(2);
  communicator.barrier(communicator.world()).wait();
  const auto start = std::chrono::steady_clock::now();
  run(repeats);
  const std::chrono::duration<double> elapsed = std::chrono::steady_clock::now() - start;
  return elapsed.count() / repeats;
}

CollectiveTable measure_ranks(int ranks, std::int64_t largest) {
  constexpr double watchdog_seconds = 60;
  CollectiveTable table{ranks, {}};
  LocalOptions options;
  options.watchdog_seconds = watchdog_seconds;
  LocalWorld world(ranks, options);
  world.run([&](Communicator& local) {
    prepare_rank_thread();
    const c10::Device device = choose_device(DeviceKind::cuda, local.rank());
    const auto connected =
        connect_devices({&local, [](Communicator*) {}}, CommunicationBackend::nccl, device, watchdog_seconds);
    std::vector<int> all(static_cast<std::size_t>(ranks));
    std::iota(all.begin(), all.end(), 0);
    const Group group = connected->make_group("calibration", all);
    for (const std::int64_t bytes : sizes) {
      if (bytes > largest) break;
      const double seconds = all_reduce_seconds(*connected, group, device, bytes);
      if (local.rank() == 0) table.points.push_back({static_cast<double>(bytes), seconds});
    }
  });
  // Other work on the machine makes measurements longer, never shorter: what took longer than a larger message did.
  for (std::size_t i = table.points.size(); i-- > 1;)
    table.points[i - 1].seconds = std::min(table.points[i - 1].seconds, table.points[i].seconds);
  return table;
}

}  // namespace

bool measure_links(const Stopwatch& stopwatch, int gpus, ClusterProfile& profile) {
  if (gpus < 2 || !has_nccl_part()) return false;
  const std::int64_t size = runtime_of(stopwatch.device()).measuring_size();
  profile.node.all_reduce.clear();
  for (int ranks = 2; ranks <= gpus; ranks *= 2)
    profile.node.all_reduce.push_back(measure_ranks(ranks, 4 * size * size));
  return true;
}

}  // namespace llmtrain
