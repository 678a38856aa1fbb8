// SPDX-License-Identifier: Apache-2.0
// Dropout on a GPU is the CPU's, in fp32 and bf16 bitwise, whatever element it begins with, in one kernel with no
// memory beside.
#include "kernels/random/dropout.h"

#include <ATen/ops/equal.h>

#include <catch2/catch.hpp>
#include <cstdint>

#include "tests/emulator/torch/backend.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {
namespace {

const at::Device gpu{at::kCUDA, 0};

// Calls work(x) with x on both devices, after which both must hold the same; the kernels that it took, and the memory.
template <class Work>
void check_alike(at::Tensor host, std::int64_t kernels, std::int64_t allocations, Work work) {
  at::Tensor device = host.to(gpu);
  const emulated::Counters& counters = emulated::counters(0);
  const std::int64_t launched = counters.launches, allocated = counters.allocations;
  at::Tensor got = work(device);
  CHECK(counters.launches - launched == kernels);
  CHECK(counters.allocations - allocated == allocations);
  got = got.to(at::kCPU);
  const at::Tensor want = work(host);
  CHECK(at::equal(got.eq(0), want.eq(0)));
  // A CPU's fp16 takes LibTorch's operators, which round otherwise.
  const double bound = host.scalar_type() == at::kHalf ? 4 * fp16_rounding : 0;
  CHECK(largest_error(got, want) <= bound);
  CHECK(largest_error(device.to(at::kCPU), host) <= bound);
}

}  // namespace

TEST_CASE("dropout on a GPU drops what it drops on a CPU") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  // Also within a counter's four words, and where counters need more than 32 bits.
  const auto first = GENERATE(std::int64_t{0}, std::int64_t{3}, (std::int64_t{1} << 34) - 6);
  const Dropout dropout{0.3, dropout_key(1, 2, 3), first};
  check_alike(random_tensor({7, 11}, type), 1, 0, [&](at::Tensor& x) {
    dropout_(x, dropout);
    return x;
  });
}

TEST_CASE("dropout of some heads or positions of each sample is the CPU's on a GPU") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  const Dropout of_heads{0.3, 5, 64, 96, 192};
  check_alike(random_tensor({4, 2, 6, 8}, type), 1, 0, [&](at::Tensor& x) {
    dropout_(x, of_heads);
    return x;
  });
  // Four sequences, of which this rank has the first and the last quarter. The last one of a sequence goes on with the
  // first of the next: all runs but the first and the last are alike.
  const SequencePart part{16, {{0, 4}, {12, 4}}};
  const RowsAtHand rows{part, 8, 0};
  check_alike(random_tensor({32, 5}, type), 3, 1, [&](at::Tensor& x) { return dropped_rows(x, {0.3, 5, 80}, rows); });
}

TEST_CASE("dropout on a GPU adds a residual in the same kernel, and rounds as the CPU does") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const auto probability = GENERATE(0.3, 0.0);
  const SequencePart whole;
  const RowsAtHand rows{whole, 5, 0};
  const at::Tensor residual = random_tensor({10, 24}, type), there = residual.to(gpu);
  check_alike(random_tensor({10, 24}, type), 1, 0, [&](at::Tensor& x) {
    add_dropped_rows_(x, x.is_cpu() ? residual : there, {probability, 5, 120}, rows);
    return x;
  });
}

}  // namespace llmtrain::kernels
