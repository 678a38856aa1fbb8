// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/tests/ranks_on_threads.h"

#include <array>
#include <exception>
#include <stdexcept>
#include <thread>
#include <vector>

namespace emulated::test {
namespace {

void check_cuda(cudaError_t error) {
  if (error != cudaSuccess) throw std::runtime_error(cudaGetErrorString(error));
}

void run_rank(int number, const ncclUniqueId& id, const std::function<void(const Rank&)>& run) {
  check_cuda(cudaSetDevice(number));
  Rank rank;
  rank.number = number;
  check(ncclCommInitRankConfig(&rank.comm, 2, id, number, nullptr));
  check_cuda(cudaStreamCreateWithFlags(&rank.stream, cudaStreamNonBlocking));
  run(rank);
  check_cuda(cudaStreamSynchronize(rank.stream));
}

}  // namespace

void check(ncclResult_t result) {
  if (result != ncclSuccess) throw std::runtime_error(ncclGetErrorString(result));
}

Floats Rank::floats(std::size_t count, float value) const {
  const Floats made = device_floats(count, number);
  Stream* const own = reinterpret_cast<Stream*>(stream);
  order(default_stream(number), own);
  set(own, made, value);
  return made;
}

float Rank::first_of(const Floats& x) const { return test::first_of(reinterpret_cast<Stream*>(stream), x); }

void on_two_ranks(const std::function<void(const Rank&)>& run) {
  ncclUniqueId id;
  check(ncclGetUniqueId(&id));
  std::array<std::exception_ptr, 2> errors;
  std::vector<std::thread> threads;
  for (int number = 0; number < 2; ++number)
    threads.emplace_back([&, number] {
      try {
        run_rank(number, id, run);
      } catch (...) {
        errors[static_cast<std::size_t>(number)] = std::current_exception();
      }
    });
  for (std::thread& thread : threads) thread.join();
  for (const auto& error : errors)
    if (error) std::rethrow_exception(error);
}

}  // namespace emulated::test
