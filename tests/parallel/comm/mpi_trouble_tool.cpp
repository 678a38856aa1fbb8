// SPDX-License-Identifier: Apache-2.0
// One rank of a world with the failure that its argument names; mpi_trouble_test.py checks how it ends.
#include <cstdio>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "parallel/comm/mpi/mpi_world.h"

using namespace llmtrain;

namespace {

void run(Communicator& communicator, const std::string& trouble) {
  std::vector<float> data(300000, 1);
  const Array array{data.data(), static_cast<std::int64_t>(data.size()), ElementType::float32};
  const Group& world = communicator.world();
  communicator.all_reduce(world, Purpose::data_parallel, array).wait();
  Handle open = communicator.all_reduce(world, Purpose::data_parallel, array);
  if (communicator.rank() == 1) {
    if (trouble == "throw") throw Error(ExitCode::bad_data, "shard 3 is broken");
    if (trouble == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
    if (trouble == "size") {
      open.wait();
      communicator.all_reduce(world, Purpose::control, {data.data(), 5, ElementType::float32}).wait();
    }
    if (trouble == "group") std::this_thread::sleep_for(std::chrono::hours(1));
  }
  open.wait();
  if (trouble == "size")
    communicator.all_reduce(world, Purpose::control, {data.data(), 9, ElementType::float32}).wait();
  if (trouble == "group") communicator.make_group("pair", {0, 1});
  communicator.barrier(world).wait();
}

}  // namespace

int main(int, char* arguments[]) {
  const std::unique_ptr<Communicator> communicator = join_mpi_world({.watchdog_seconds = 5});
  try {
    run(*communicator, arguments[1]);
  } catch (const Error& error) {
    // In this order, because mpirun ends a rank as soon as another one has ended.
    std::fprintf(stderr, "[rank %d] %s\n", communicator->rank(), error.what());
    communicator->abort(error.code(), error.what());
    return static_cast<int>(error.code());
  }
  return 0;
}
