// SPDX-License-Identifier: Apache-2.0
// Every wrong kernel must be caught by at least one build: by a wrong result, by an error that the launch throws, or by
// a sanitizer, which ends the process; each kernel therefore runs in a process of its own.
#include <fcntl.h>
#include <unistd.h>

#include <catch2/catch.hpp>
#include <csignal>
#include <functional>
#include <string>
#include <vector>

#include "tests/cuda_on_host/exact_array.h"
#include "tests/cuda_on_host/machine/launch.h"
#include "tests/cuda_on_host/tests/wrong_kernels.h"
#include "tests/support/child_process.h"

using namespace llmtrain::kernels::test;
using llmtrain::test::ExactArray;

#ifdef CUDA_ON_HOST_THREAD
// Every process would sleep for a second in front of its end.
extern "C" const char* __tsan_default_options() { return "atexit_sleep_ms=0"; }
#endif

namespace {

// The builds of CI, as bits: the release build's kernels are checked for undefined behaviour.
enum Build : unsigned { release = 1, address = 2, thread = 4, any = 7 };
#ifdef CUDA_ON_HOST_ADDRESS
constexpr Build this_build = address;
#elif defined(CUDA_ON_HOST_THREAD)
constexpr Build this_build = thread;
#else
constexpr Build this_build = release;
#endif

struct Arrays {
  ExactArray<float> x{1024, 1}, y{1024};

  bool y_is(std::size_t begin, std::size_t end, float value) const {
    for (std::size_t i = begin; i < end; ++i)
      if (y[i] != value) return false;
    return true;
  }
};

struct WrongKernel {
  std::string name;
  unsigned caught_by;                           // at least, with one of five seeds
  std::function<bool(const Arrays&)> is_right;  // runs it; whether its result is
};

template <class Kernel>
void run(dim3 grid, dim3 block, std::size_t shared_bytes, Kernel kernel) {
  cuda_on_host::launch(grid, block, shared_bytes, kernel);
}

// Twice, in two orders.
bool sums_are_equal(const Arrays& a) {
  for (std::size_t i = 0; i < 1024; ++i) a.x[i] = 1 / static_cast<float>(3 + i);
  float sums[2] = {};
  for (float& sum : sums) {
    a.y[0] = 0;
    cuda_on_host::options.seed = cuda_on_host::options.seed * 31 + 7;
    run(32, 32, 0, [&] { order_of_atomics(a.x.data(), a.y.data()); });
    sum = a.y[0];
  }
  return sums[0] == sums[1];
}

bool writes_no_more_than(std::size_t n) {
  const ExactArray<float> x(n + 2, 1), y(n);
  run(1, 256, 0, [&] { write_beyond(x.data(), y.data(), static_cast<int>(n)); });
  return !y.has_overrun();
}

// Kernels in which threads use one another's memory too early.
const std::vector<WrongKernel> order_kernels{
    {"missing_barrier", any,
     [](const Arrays& a) {
       run(1, 256, 0, [&] { missing_barrier(a.x.data(), a.y.data()); });
       return a.y[0] == 256;
     }},
    {"missing_second_barrier", any,
     [](const Arrays& a) {
       run(1, 256, 0, [&] { missing_second_barrier(a.x.data(), a.y.data()); });
       return a.y_is(0, 256, 256) && a.y_is(256, 512, 512);
     }},
    {"missing_wait", any,
     [](const Arrays& a) {
       run(1, 256, 0, [&] { missing_wait(a.x.data(), a.y.data()); });
       return a.y_is(0, 1024, 1);
     }},
    {"lockstep", any,
     [](const Arrays& a) {
       run(1, 32, 0, [&] { lockstep(a.x.data(), a.y.data()); });
       return a.y[0] == 32;
     }},
    {"unordered_blocks", thread,
     [](const Arrays& a) {
       run(64, 32, 0, [&] { unordered_blocks(a.y.data()); });
       return a.y[0] == 64;
     }},
    {"block_waits_for_block", any,
     [](const Arrays& a) {
       run(8, 32, 0, [&] { block_waits_for_block(a.y.data()); });
       return a.y_is(1, 9, 1);
     }},
    {"order_of_atomics", any, sums_are_equal},
};

// Kernels that use memory which is not theirs, or not yet anything.
const std::vector<WrongKernel> memory_kernels{
    {"write_beyond", release | address, [](const Arrays&) { return writes_no_more_than(1022); }},
    {"shared_beyond", any,
     [](const Arrays& a) {
       run(1, 256, 0, [&] { shared_beyond(a.y.data()); });
       return a.y_is(0, 256, 1);
     }},
    {"dynamic_beyond", any,
     [](const Arrays& a) {
       run(1, 256, 256 * sizeof(float), [&] { dynamic_beyond(a.y.data()); });
       return a.y_is(0, 256, 1);
     }},
    {"misaligned", release,
     [](const Arrays& a) {
       run(4, 25, 0, [&] { misaligned(a.x.data(), a.y.data(), 101); });
       return a.y_is(0, 100, 1);
     }},
    {"uninitialised", any,
     [](const Arrays& a) {
       run(1, 32, 0, [&] { uninitialised(a.y.data()); });
       return a.y_is(0, 5, 0) && a.y[5] == 1 && a.y_is(6, 32, 0);
     }},
    {"narrow_index", release | address,
     [](const Arrays& a) {
       run(1, 1, 0, [&] { narrow_index(a.x.data(), a.y.data(), 70000, 40000); });
       return true;
     }},
    {"large_shared", any,
     [](const Arrays& a) {
       run(1, 32, 300 * 1024, [&] { large_shared(a.y.data()); });
       return true;
     }},
};

// Kernels whose threads do not meet where they must.
const std::vector<WrongKernel> meeting_kernels{
    {"inactive_lanes", any,
     [](const Arrays& a) {
       run(1, 64, 0, [&] { inactive_lanes(a.x.data(), a.y.data(), 40); });
       return true;
     }},
    {"returned_lanes", any,
     [](const Arrays& a) {
       run(1, 64, 0, [&] { returned_lanes(a.x.data(), a.y.data(), 40); });
       return true;
     }},
    {"half_warp", any,
     [](const Arrays& a) {
       run(1, 48, 0, [&] { half_warp(a.x.data(), a.y.data()); });
       return true;
     }},
    {"lane_outside", any,
     [](const Arrays& a) {
       run(1, 32, 0, [&] { lane_outside(a.y.data()); });
       return true;
     }},
    {"divergent_barrier", any,
     [](const Arrays& a) {
       run(1, 256, 0, [&] { divergent_barrier(a.y.data()); });
       for (std::size_t i = 0; i < 256; ++i)
         if (a.y[i] != static_cast<float>(255 - i)) return false;
       return true;
     }},
};

// "right", "wrong", "threw: …", or what ended the process; a sanitizer says nothing here but ends it.
std::string outcome_of(const WrongKernel& kernel, std::uint64_t seed) {
  return llmtrain::test::in_child([&] {
    // Neither the sanitizers' reports nor what Catch2 says of a signal.
    const int nowhere = ::open("/dev/null", O_WRONLY);
    for (const int output : {STDOUT_FILENO, STDERR_FILENO}) ::dup2(nowhere, output);
    std::signal(SIGSEGV, SIG_DFL);
    std::signal(SIGABRT, SIG_DFL);
    cuda_on_host::options.seed = seed;
    const Arrays arrays;
    return std::string(kernel.is_right(arrays) ? "right" : "wrong");
  });
}

bool is_caught(const WrongKernel& kernel) {
  for (std::uint64_t seed = 1; seed < 6; ++seed)
    if (outcome_of(kernel, seed) != "right") return true;
  return false;
}

void must_be_caught(const std::vector<WrongKernel>& kernels) {
  for (const WrongKernel& kernel : kernels) {
    INFO(kernel.name);
    CHECK(kernel.caught_by != 0);
    if ((kernel.caught_by & this_build) != 0) CHECK(is_caught(kernel));
  }
}

}  // namespace

TEST_CASE("Kernels that depend on the order of their threads are caught") { must_be_caught(order_kernels); }

TEST_CASE("Kernels that use memory beyond their own are caught") { must_be_caught(memory_kernels); }

TEST_CASE("Kernels whose threads miss each other are caught") { must_be_caught(meeting_kernels); }

TEST_CASE("There are nineteen wrong kernels, and one that is right is not caught") {
  CHECK(order_kernels.size() + memory_kernels.size() + meeting_kernels.size() == 19);
  const WrongKernel right{"right", 0, [](const Arrays& a) {
                            run(1, 1, 0, [&] { narrow_index(a.x.data(), a.y.data(), 7, 40); });
                            return a.y[0] == 1 && writes_no_more_than(1024);
                          }};
  CHECK_FALSE(is_caught(right));
}
