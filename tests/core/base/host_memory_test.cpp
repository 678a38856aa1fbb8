// SPDX-License-Identifier: Apache-2.0
#include "core/machine/host_memory.h"

#include <catch2/catch.hpp>
#include <new>
#include <stdexcept>
#include <string>

#include "tests/support/temporary_directory.h"

namespace llmtrain {
namespace {

constexpr const char* meminfo = "MemTotal:       2048 kB\nMemFree:         100 kB\nMemAvailable:   1024 kB\n";

}  // namespace

TEST_CASE("a machine has the memory that it says it has", "[memory]") {
  const test::TemporaryDirectory root;
  std::filesystem::create_directory(root.path() / "proc");
  root.write("proc/meminfo", meminfo);
  const HostMemory memory = host_memory(root.path());
  CHECK(memory.total == 2048 * 1024);
  CHECK(memory.available == 1024 * 1024);
  CHECK(memory.limit == 0);
  CHECK(host_memory().total > 0);
  CHECK(host_memory().available <= host_memory().total);
}

TEST_CASE("a system that says nothing has unknown memory", "[memory]") {
  const HostMemory memory = host_memory("/nowhere");
  CHECK(memory.total == 0);
  CHECK(memory.available == 0);
}

TEST_CASE("an error of memory says what was asked for and what there is", "[memory]") {
  // As LibTorch words it (c10/core/impl/alloc_cpu.cpp).
  const std::runtime_error tensor(
      "[enforce fail at alloc_cpu.cpp:118] err == 0. DefaultCPUAllocator: can't allocate memory: you tried to allocate "
      "4294967296 bytes. Error code 12 (Cannot allocate memory)\nframe #0: c10");
  const auto text = out_of_memory(tensor);
  REQUIRE(text);
  CHECK_THAT(*text, Catch::StartsWith("out of memory: 4.00 GiB were asked for, and this machine has ") &&
                        Catch::Contains("available; llmtrain plan ") && !Catch::Contains("frame"));
  CHECK_THAT(out_of_memory(std::bad_alloc()).value_or(""), Catch::StartsWith("out of memory: this machine cannot"));
  const std::runtime_error gpu("CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has 1.00 GiB free.\nException");
  CHECK_THAT(
      out_of_memory(gpu).value_or(""),
      Catch::StartsWith("out of memory on the GPU: Tried to allocate 2.00 GiB.") && !Catch::Contains("Exception"));
  const std::runtime_error stream("CUDA error: out of memory\nSearch for `cudaErrorMemoryAllocation' in");
  CHECK_THAT(out_of_memory(stream).value_or(""),
             Catch::StartsWith("out of memory on the GPU: ") && !Catch::Contains("cudaError"));
  CHECK_FALSE(out_of_memory(std::runtime_error("other")));
}

TEST_CASE("an error of memory ends with the advice of what fits", "[memory]") {
  const auto said = [] { return out_of_memory(std::bad_alloc()).value_or(""); };
  const std::string plain = said();
  advise_on_memory([] { return std::string("the cheapest change that fits: --set batch.micro=1"); });
  CHECK_THAT(said(), Catch::EndsWith("available; the cheapest change that fits: --set batch.micro=1"));
  const std::runtime_error gpu("CUDA out of memory. Tried to allocate 2.00 GiB.");
  CHECK_THAT(out_of_memory(gpu).value_or(""),
             Catch::EndsWith("2.00 GiB. To make it fit: the cheapest change that fits: "
                             "--set batch.micro=1"));
  // One that needs memory itself, or knows nothing.
  advise_on_memory([]() -> std::string { throw std::bad_alloc(); });
  CHECK(said() == plain);
  advise_on_memory([] { return std::string(); });
  CHECK(said() == plain);
  advise_on_memory(nullptr);
  CHECK(said() == plain);
}

}  // namespace llmtrain
