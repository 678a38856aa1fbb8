// SPDX-License-Identifier: Apache-2.0
// Casts to FP8 (kernels/fp8/fp8.h) compared with a copy that moves as many bytes and with LibTorch's chain of
// operators: fp8_bench [ELEMENTS]. Delayed scaling knows the scale and needs one pass, current scaling a pass for the
// largest magnitude before it.
#include <ATen/Parallel.h>
#include <ATen/TensorOperators.h>
#include <ATen/ops/amax.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/randn.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "kernels/adamw.h"
#include "kernels/fp8/fp8.h"
#include "parallel/device/cpu_allocator.h"

using namespace llmtrain;

namespace {

constexpr int rounds = 21;

double median(std::vector<double> seconds) {
  std::sort(seconds.begin(), seconds.end());
  return seconds[seconds.size() / 2];
}

// Medians of the seconds that each takes. They take turns, so that slow phases of the machine meet all of them.
std::vector<double> compare(const std::vector<std::function<void()>>& works) {
  std::vector<std::vector<double>> seconds(works.size());
  for (int round = 0; round <= rounds; ++round)
    for (std::size_t i = 0; i < works.size(); ++i) {
      const auto start = std::chrono::steady_clock::now();
      works[i]();
      const std::chrono::duration<double> taken = std::chrono::steady_clock::now() - start;
      if (round > 0) seconds[i].push_back(taken.count());  // the first one warms up
    }
  std::vector<double> medians;
  for (const std::vector<double>& each : seconds) medians.push_back(median(each));
  return medians;
}

void show(const char* name, const at::Tensor& x, kernels::Fp8Format format) {
  const at::Tensor scale = kernels::fp8_scale(kernels::largest_magnitude(x), format);
  const at::Tensor payload = kernels::cast_to_fp8(x, scale, format);
  const double most = kernels::largest_of(format);
  // A copy reads and writes as many bytes; a cast reads an element and writes one byte.
  const std::int64_t copied = x.numel() * (x.element_size() + 1) / 2;
  const at::Tensor from = at::full({copied}, 1, at::kByte), to = at::full({copied}, 1, at::kByte);
  at::Tensor result;
  const std::vector<double> seconds = compare({
      [&] { to.copy_(from); },
      [&] { result = kernels::largest_magnitude(x); },
      [&] { result = kernels::cast_and_measure(x, scale, format).values; },
      [&] { result = kernels::round_to_fp8(x, scale, format); },
      [&] { result = kernels::widen_fp8(payload, scale, x.scalar_type()); },
      [&] { result = at::amax(x.abs()); },
      [&] { result = x.mul(scale).clamp(-most, most).to(kernels::fp8_type(format)); },
      [&] { result = payload.to(x.scalar_type()).div(scale); },
  });
  std::printf("%-12s %9.0f µs", name, 1e6 * seconds[0]);
  for (std::size_t i = 1; i < seconds.size(); ++i) std::printf(" %8.2f", seconds[i] / seconds[0]);
  std::printf("\n");
}

// Counting what has saturated in a step's gradients reads a byte per element, as does a copy of half as many.
void show_count(const at::Tensor& x) {
  const at::Tensor payload = kernels::cast_to_fp8(x, at::full({1}, 256, at::kFloat), kernels::Fp8Format::e4m3);
  const at::Tensor from = at::full({x.numel() / 2}, 1, at::kByte), to = at::full({x.numel() / 2}, 1, at::kByte);
  const auto* bytes = static_cast<const std::uint8_t*>(payload.const_data_ptr());
  std::int64_t counted = 0;
  const std::vector<double> seconds = compare({
      [&] { to.copy_(from); },
      [&] { counted = kernels::count_saturated(payload); },
      [&] {
        counted =
            std::count_if(bytes, bytes + payload.numel(), [](std::uint8_t byte) { return (byte & 0x7f) == 0x7e; });
      },
  });
  std::printf("%-12s %9.0f µs %8.2f, by the standard library in one thread %.2f, of which %lld saturated\n", "count",
              1e6 * seconds[0], seconds[1] / seconds[0], seconds[2] / seconds[0], static_cast<long long>(counted));
}

// AdamW at level O1, whose weights alone are in fp16: in one pass, and in fp32 between conversions of a piece that fits
// the caches. It reads 11 bytes of an element and writes 10, as does a copy of half as many.
void show_update(std::int64_t elements) {
  constexpr std::int64_t piece = std::int64_t{1} << 20;
  const at::Tensor x = at::randn({elements}), scale = at::full({1}, 128, at::kFloat);
  const at::Tensor one = at::ones({1}, at::kFloat), ones = at::ones({3}, at::kFloat);
  const kernels::ScaledAdamwState state{{x.to(at::kHalf), one},
                                        {x * 0.01, one},
                                        {x.square() * 1e-4, one},
                                        {kernels::cast_to_fp8(x, scale, kernels::Fp8Format::e4m3), scale}};
  const kernels::ScaledAdamwTensor tensor{.state = state, .numbers = ones};
  const kernels::AdamwStep step{.learning_rate = 1e-6};
  const at::Tensor from = at::full({elements * 21 / 2}, 1, at::kByte), to = at::full({elements * 21 / 2}, 1, at::kByte);
  const std::vector<double> seconds = compare({
      [&] { to.copy_(from); },
      [&] {
        kernels::scaled_adamw_({&tensor, 1}, step);
      },
      [&] {
        for (std::int64_t begin = 0; begin < elements; begin += piece) {
          const auto part = [&](const at::Tensor& flat) { return flat.slice(0, begin, begin + piece); };
          kernels::AdamwState wide{part(state.weights.payload).to(at::kFloat).div_(1), part(state.m.payload),
                                   part(state.v.payload)};
          kernels::adamw_(wide, kernels::widen_fp8(part(state.gradients.payload), scale, at::kFloat), step, {});
          part(state.weights.payload).copy_(wide.weights.mul_(1));
        }
      },
  });
  std::printf("%-12s %9.0f µs %8.2f, between conversions %.2f\n", "update O1", 1e6 * seconds[0],
              seconds[1] / seconds[0], seconds[2] / seconds[0]);
}

}  // namespace

int main(int count, char** words) {
  // As training does: large tensors would otherwise be cleared by the system at every use.
  pool_cpu_tensors();
  const std::int64_t elements = count > 1 ? std::atoll(words[1]) : std::int64_t{1} << 24;
  std::printf("%lld elements, %d threads; times of a copy of as many bytes, and of others relative to it\n",
              static_cast<long long>(elements), at::get_num_threads());
  std::printf("%-12s %12s %8s %8s %8s %8s %8s %8s %8s\n", "", "copy", "amax", "cast", "round", "widen", "(amax)",
              "(cast)", "(widen)");
  const at::Tensor x = at::randn({elements});
  for (const auto& [type, name] : {std::pair{at::kFloat, "fp32"}, {at::kBFloat16, "bf16"}, {at::kHalf, "fp16"}}) {
    show((std::string(name) + " E4M3").c_str(), x.to(type), kernels::Fp8Format::e4m3);
    show((std::string(name) + " E5M2").c_str(), x.to(type), kernels::Fp8Format::e5m2);
  }
  show_count(x);
  show_update(elements);
  return 0;
}
