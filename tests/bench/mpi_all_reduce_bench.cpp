// SPDX-License-Identifier: Apache-2.0
// The mpi backend compared with MPI's own all_reduce: mpirun -n RANKS mpi_all_reduce_bench [MEGABYTES]
#include <mpi.h>

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <vector>

#include "parallel/comm/mpi/mpi_world.h"

using namespace llmtrain;

namespace {

constexpr int rounds = 15;

struct Times {
  double best = 1e9;
  double median = 0;
};

// Seconds of the slowest rank, over several rounds.
template <class Work>
Times measure(Work work) {
  std::vector<double> times;
  for (int round = 0; round < rounds; ++round) {
    MPI_Barrier(MPI_COMM_WORLD);
    const double start = MPI_Wtime();
    work();
    double seconds = MPI_Wtime() - start;
    MPI_Allreduce(MPI_IN_PLACE, &seconds, 1, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
    times.push_back(seconds);
  }
  std::sort(times.begin(), times.end());
  return {times.front(), times[times.size() / 2]};
}

void compare(Communicator& communicator, std::size_t bytes) {
  std::vector<float> data(bytes / sizeof(float), 0);
  const auto count = static_cast<int>(data.size());
  // One after the other, twice, because other load on the machine changes while they run.
  for (int pass = 0; pass < 2; ++pass) {
    const Times theirs =
        measure([&] { MPI_Allreduce(MPI_IN_PLACE, data.data(), count, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); });
    const Times ours = measure([&] {
      const Array array{data.data(), count, ElementType::float32};
      communicator.all_reduce(communicator.world(), Purpose::data_parallel, array).wait();
    });
    if (communicator.rank() != 0) continue;
    std::printf(
        "%d ranks, %zu KiB: MPI_Allreduce %.3f ms (median %.3f), all_reduce %.3f ms (median %.3f): %.2f of it\n",
        communicator.size(), bytes >> 10, theirs.best * 1e3, theirs.median * 1e3, ours.best * 1e3, ours.median * 1e3,
        ours.best / theirs.best);
  }
}

}  // namespace

int main(int count, char* arguments[]) {
  // The backend's thread sleeps while this one is in MPI, because no operation is in flight then.
  MPI_Init_thread(nullptr, nullptr, MPI_THREAD_MULTIPLE, &count);
  {
    const std::unique_ptr<Communicator> communicator = join_mpi_world();
    const char* size = arguments[1] != nullptr ? arguments[1] : "64";
    compare(*communicator, static_cast<std::size_t>(std::atoi(size)) << 20);
    compare(*communicator, std::size_t{64} << 10);
    compare(*communicator, 1 << 10);
  }
  MPI_Finalize();
}
