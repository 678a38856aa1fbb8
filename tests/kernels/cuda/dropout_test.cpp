// SPDX-License-Identifier: Apache-2.0
// Dropout on a GPU has the CPU's masks, whatever element it begins with.
#include "kernels/random/dropout.h"

#include <ATen/ops/equal.h>

#include <catch2/catch.hpp>
#include <cstdint>

#include "tests/emulator/torch/backend.h"
#include "tests/kernels/tensor_error.h"

namespace llmtrain::kernels {

TEST_CASE("dropout on a GPU drops what it drops on a CPU") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16);
  // Also within a counter's four words, and where counters need more than 32 bits.
  const auto first = GENERATE(std::int64_t{0}, std::int64_t{3}, (std::int64_t{1} << 34) - 6);
  const Dropout dropout{0.3, dropout_key(1, 2, 3), first};
  at::Tensor host = random_tensor({7, 11}, type), device = host.to(at::Device(at::kCUDA, 0));
  dropout_(host, dropout);
  const std::int64_t before = emulated::counters(0).launches;
  dropout_(device, dropout);
  CHECK(emulated::counters(0).launches - before <= 131);
  const at::Tensor got = device.to(at::kCPU);
  CHECK(at::equal(got.eq(0), host.eq(0)));
  CHECK(largest_error(got, host) <= (type == at::kFloat ? 0 : 2 * bf16_rounding));
  CHECK(host.eq(0).any().item<bool>());
}

}  // namespace llmtrain::kernels
