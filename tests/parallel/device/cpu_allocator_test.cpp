// SPDX-License-Identifier: Apache-2.0
#include "parallel/device/cpu_allocator.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <c10/core/CPUAllocator.h>

#include <catch2/catch.hpp>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/device/measurement.h"
#include "tests/support/resident_memory.h"

namespace llmtrain::test {
namespace {

at::Tensor bytes_of(std::int64_t bytes) { return at::empty({bytes}, at::kByte); }

}  // namespace

TEST_CASE("every tensor's bytes are counted exactly, whatever their size and whichever allocator made them") {
  std::vector<at::Tensor> before;
  for (const std::int64_t bytes : {1, 5000, 70'000, 3'000'001}) before.push_back(bytes_of(bytes).fill_(7));
  pool_cpu_tensors();
  pool_cpu_tensors();
  const MemoryWatch watch;
  std::int64_t sum = 0;
  std::vector<at::Tensor> tensors;
  for (const std::int64_t bytes : {0, 1, 63, 4096, 65'535, 65'536, 65'537, 1'000'003, 5 << 20}) {
    tensors.push_back(bytes_of(bytes));
    sum += bytes;
    REQUIRE(watch.memory().now() == sum);
  }
  tensors.clear();
  CHECK(watch.memory().now() == 0);
  CHECK(watch.memory().peak() == sum);
  // As LibTorch's own allocator has it: what nobody counted is not taken off.
  for (const at::Tensor& tensor : before) CHECK(tensor.min().item<int>() == 7);
  const std::int64_t now = watch.memory().now();
  before.clear();
  CHECK(watch.memory().now() == now);
}

TEST_CASE("a tensor may outlive the thread that made it, and be resized and copied") {
  pool_cpu_tensors();
  std::optional<at::Tensor> tensor;
  std::thread([&] { tensor = at::full({300'000}, 2.0F); }).join();
  at::Tensor copy = tensor->clone();
  tensor->resize_({900'000});
  CHECK(tensor->slice(0, 0, 300'000).equal(copy));
  std::thread([moved = std::move(*tensor)]() mutable { moved.reset(); }).join();
  tensor.reset();
  CHECK(copy.sum().item<double>() == 600'000);
}

TEST_CASE("blocks without a tensor are released by the one function that LibTorch asks for") {
  pool_cpu_tensors();
  c10::Allocator& allocator = *c10::GetCPUAllocator();
  for (const std::size_t bytes : {100, 4096, 65'536, 10'000'000}) {
    void* block = allocator.raw_allocate(bytes);
    static_cast<unsigned char*>(block)[bytes - 1] = 1;
    CHECK(allocator.allocate(bytes).get_deleter() == allocator.raw_deleter());
    allocator.raw_deallocate(block);
  }
}

// Sanitizers end a process that asks for too much, and keep what is freed.
#if !defined(LLMTRAIN_SANITIZED)
TEST_CASE("memory that no system has is an error that names its size") {
  pool_cpu_tensors();
  CHECK_THROWS_WITH(bytes_of(std::int64_t{1} << 60),
                    Catch::Contains("you tried to allocate 1152921504606846976 bytes"));
}

TEST_CASE("freed tensors leave no holes that the same tensors do not fit into again") {
  pool_cpu_tensors();
  const double before = resident_megabytes();
  std::vector<at::Tensor> kept;
  // As with the logits of one part of the tokens after another, and what is computed of them.
  for (int part = 0; part < 16; ++part) {
    const at::Tensor logits = at::full({8 << 20}, 1.0F);
    kept.push_back(at::full({16 << 10}, 1.0F));
  }
  CHECK(resident_megabytes() - before < 1.1 * (33.6 + 16 * 0.065));
}
#endif

}  // namespace llmtrain::test
