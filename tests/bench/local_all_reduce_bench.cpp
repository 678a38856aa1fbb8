// SPDX-License-Identifier: Apache-2.0
// How close the local backend's all_reduce comes to the memory bandwidth: local_all_reduce_bench [RANKS] [MEGABYTES]
#include <algorithm>
#include <barrier>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>
#include <vector>

#include "core/base/elapsed_time.h"
#include "core/machine/processor.h"
#include "parallel/comm/local/local_world.h"

using namespace llmtrain;

namespace {

constexpr int rounds = 60;

// The fastest of several rounds of `work`, which all threads run at the same time.
template <class Work>
double best_seconds(int threads, Work work) {
  std::barrier together(threads);
  double best = 1e9;
  const auto run = [&](int thread) {
    for (int round = 0; round < rounds; ++round) {
      together.arrive_and_wait();
      const Clock::time_point start = Clock::now();
      work(thread);
      together.arrive_and_wait();
      if (thread == 0) best = std::min(best, seconds_since(start));
    }
  };
  std::vector<std::thread> others;
  for (int thread = 1; thread < threads; ++thread) others.emplace_back(run, thread);
  run(0);
  for (std::thread& other : others) other.join();
  return best;
}

// Bytes per second, read and written, when every thread copies its own memory.
double copy_rate(int threads, std::size_t bytes) {
  std::vector<std::vector<char>> from(static_cast<std::size_t>(threads), std::vector<char>(bytes, 1)), to = from;
  const double seconds = best_seconds(threads, [&](int thread) {
    const auto index = static_cast<std::size_t>(thread);
    std::memcpy(to[index].data(), from[index].data(), bytes);
  });
  return 2.0 * static_cast<double>(bytes) * threads / seconds;
}

double all_reduce_seconds(int ranks, std::size_t bytes, ElementType type) {
  LocalWorld world(ranks);
  std::vector<std::unique_ptr<Communicator>> communicators;
  std::vector<std::vector<char>> data(static_cast<std::size_t>(ranks), std::vector<char>(bytes));
  for (int rank = 0; rank < ranks; ++rank) communicators.push_back(world.communicator(rank));
  return best_seconds(ranks, [&](int rank) {
    const auto index = static_cast<std::size_t>(rank);
    const auto count = static_cast<std::int64_t>(bytes) / element_size(type);
    Communicator& communicator = *communicators[index];
    communicator.all_reduce(communicator.world(), Purpose::data_parallel, {data[index].data(), count, type}).wait();
  });
}

}  // namespace

int main(int count, char* arguments[]) {
  const int ranks = count > 1 ? std::atoi(arguments[1]) : 2;
  const auto bytes = static_cast<std::size_t>(count > 2 ? std::atoi(arguments[2]) : 64) << 20;
  const int threads = std::min(ranks, usable_cores());
  const double rate = copy_rate(threads, bytes);
  // Each rank's memory is read once and written once.
  const double bound = 2.0 * static_cast<double>(bytes) * ranks / rate;
  std::printf("memory: %.1f GB/s (memcpy, %d threads); bound of an all_reduce of %zu MiB over %d ranks: %.2f ms\n",
              rate * 1e-9, threads, bytes >> 20, ranks, bound * 1e3);
  for (const ElementType type :
       {ElementType::float32, ElementType::bfloat16, ElementType::float16, ElementType::float8_e4m3}) {
    const double seconds = all_reduce_seconds(ranks, bytes, type);
    std::printf("%-9s %7.2f ms  %.2f of the bound\n", element_name(type).data(), seconds * 1e3, bound / seconds);
  }
  const double latency = all_reduce_seconds(ranks, 4, ElementType::float32);
  std::printf("one fp32: %.1f us\n", latency * 1e6);
}
