// SPDX-License-Identifier: Apache-2.0
// One rank per GPU, as threads; with fewer than two GPUs it reports that and exits with 77, but proves that it links.
#include <cuda_runtime_api.h>

#include <cstdio>
#include <exception>
#include <numeric>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include "parallel/comm/local/local_world.h"
#include "parallel/comm/nccl/nccl_link.h"
#include "parallel/comm/nccl/nccl_world.h"

using namespace llmtrain;

namespace {

constexpr int skipped = 77;
constexpr std::int64_t elements = 100003;

// fp32 numbers on the device.
class DeviceArray {
 public:
  DeviceArray(std::int64_t count, float value) : count_(count) {
    const std::vector<float> values(static_cast<std::size_t>(count), value);
    check_cuda(cudaMalloc(&data_, values.size() * sizeof(float)), "allocate");
    check_cuda(cudaMemcpy(data_, values.data(), values.size() * sizeof(float), cudaMemcpyHostToDevice), "copy");
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;

  Array array() const { return {data_, count_, ElementType::float32, Memory::device}; }

  void expect(std::int64_t begin, std::int64_t count, float value, const char* what) const {
    std::vector<float> values(static_cast<std::size_t>(count));
    const void* from = static_cast<float*>(data_) + begin;
    check_cuda(cudaMemcpy(values.data(), from, values.size() * sizeof(float), cudaMemcpyDeviceToHost), "copy");
    for (const float actual : values) {
      if (actual != value)
        throw std::runtime_error(std::string(what) + " gives " + std::to_string(actual) + ", not " +
                                 std::to_string(value));
    }
  }

 private:
  void* data_ = nullptr;
  std::int64_t count_;
};

std::vector<int> all_ranks(const Communicator& communicator) {
  std::vector<int> ranks(static_cast<std::size_t>(communicator.size()));
  std::iota(ranks.begin(), ranks.end(), 0);
  return ranks;
}

void check_all_to_all(Communicator& communicator, const Group& world, cudaStream_t stream) {
  const int ranks = world.size();
  const DeviceArray out(elements * ranks, static_cast<float>(communicator.rank())), in(elements * ranks, -1);
  communicator.all_to_all(world, Purpose::expert, out.array(), in.array()).wait();
  check_cuda(cudaStreamSynchronize(stream), "synchronize");
  for (int rank = 0; rank < ranks; ++rank) in.expect(rank * elements, elements, static_cast<float>(rank), "all_to_all");
}

// Also sums on the host, between those of the devices.
void check_collectives(Communicator& communicator, cudaStream_t stream) {
  const Group world = communicator.make_group("all", all_ranks(communicator));
  const int ranks = world.size(), own = communicator.rank();
  const DeviceArray sum(elements, static_cast<float>(own + 1)), all(elements * ranks, -1);
  communicator.all_reduce(world, Purpose::data_parallel, sum.array()).wait();
  std::int64_t count = 1;
  communicator.all_reduce(world, Purpose::control, {&count, 1, ElementType::int64}).wait();
  if (count != ranks) throw std::runtime_error("all_reduce of the host's memory");
  // Only the compute stream waits, so the check comes after it.
  check_cuda(cudaStreamSynchronize(stream), "synchronize");
  const auto total = static_cast<float>(ranks * (ranks + 1)) / 2;
  sum.expect(0, elements, total, "all_reduce");

  const DeviceArray mine(elements, static_cast<float>(own)), scattered(elements, 0);
  communicator.all_gather(world, Purpose::data_parallel, mine.array(), all.array()).wait();
  communicator.reduce_scatter(world, Purpose::data_parallel, all.array(), scattered.array()).wait();
  communicator.broadcast(world, Purpose::data_parallel, mine.array(), ranks - 1).wait();
  check_cuda(cudaStreamSynchronize(stream), "synchronize");
  for (int rank = 0; rank < ranks; ++rank)
    all.expect(rank * elements, elements, static_cast<float>(rank), "all_gather");
  scattered.expect(0, elements, static_cast<float>(own * ranks), "reduce_scatter");
  mine.expect(0, elements, static_cast<float>(ranks - 1), "broadcast");
  check_all_to_all(communicator, world, stream);
}

void check_messages(Communicator& communicator, cudaStream_t stream) {
  const Group world = communicator.make_group("messages", all_ranks(communicator), GroupUse::messages_on);
  const int ranks = world.size(), own = communicator.rank();
  const int next = (own + 1) % ranks, previous = (own + ranks - 1) % ranks;
  const DeviceArray out(elements, static_cast<float>(own)), in(elements, -1);
  communicator.barrier(world).wait();
  // All ranks send before they receive: each direction has its own stream.
  Handle sent = communicator.send(world, Purpose::pipeline, out.array(), next);
  communicator.receive(world, Purpose::pipeline, in.array(), previous).wait();
  sent.wait();
  check_cuda(cudaStreamSynchronize(stream), "synchronize");
  in.expect(0, elements, static_cast<float>(previous), "a message");
}

void run_rank(std::shared_ptr<Communicator> host) {
  check_cuda(cudaSetDevice(host->rank()), "use the device");
  const CudaStream stream;
  NcclOptions options;
  options.watchdog_seconds = 60;
  options.device = host->rank();
  options.compute_stream = [&] { return stream.get(); };
  try {
    const std::unique_ptr<Communicator> communicator = join_nccl_world(host, options);
    check_collectives(*communicator, stream.get());
    check_messages(*communicator, stream.get());
  } catch (const std::exception& error) {
    std::printf("rank %d: %s\n", host->rank(), error.what());
    host->abort(ExitCode::internal_error, error.what());
  }
}

}  // namespace

int main() {
  int devices = 0;
  if (cudaGetDeviceCount(&devices) != cudaSuccess || devices < 2) {
    std::printf("skipped: NCCL needs two GPUs, and this machine has %d\n", devices);
    return skipped;
  }
  LocalWorld world(devices);
  std::vector<std::shared_ptr<Communicator>> hosts;
  for (int rank = 0; rank < devices; ++rank) hosts.push_back(world.communicator(rank));
  std::vector<std::thread> ranks;
  for (const std::shared_ptr<Communicator>& host : hosts) ranks.emplace_back(run_rank, host);
  for (std::thread& rank : ranks) rank.join();
  return hosts.front()->failure() ? 1 : 0;
}
