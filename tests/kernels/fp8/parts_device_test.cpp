// SPDX-License-Identifier: Apache-2.0
// FP8 of many tensors in flat arrays on the emulated GPU, against a processor's loops and float64.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/fp8/fp8.h"
#include "kernels/fp8/parts.h"
#include "tests/kernels/fp8/launch_counts.h"

namespace llmtrain::kernels {
namespace {

constexpr std::int64_t part_count = 160;
const at::ScalarType e4m3 = at::kFloat8_e4m3fn;

// More than a launch takes: of few elements, of none, of several portions, from any address, with gaps between them,
// and the last with the number of the first.
std::vector<FlatPart> some_parts() {
  std::vector<FlatPart> parts;
  std::int64_t end = 3;
  for (std::int64_t k = 0; k < part_count; ++k) {
    const std::int64_t size = k == 64 ? 40007 : k == 65 ? 16384 : k % 7 == 3 ? 0 : 1 + k * 5 % 41;
    parts.push_back({end, end + size, k + 1 == part_count ? 0 : k});
    end += size + k % 3;
  }
  return parts;
}

std::int64_t size_of(const std::vector<FlatPart>& parts) { return parts.back().end + 5; }

// Powers of two.
at::Tensor some_scales(int least, int most) { return at::randint(least, most + 1, {part_count}, at::kFloat).exp2_(); }

at::Tensor bits_of(const at::Tensor& x) {
  const at::Tensor here = x.cpu();
  return here.view(here.element_size() == 1 ? at::kByte : here.element_size() == 2 ? at::kShort : at::kInt);
}

// NaN is NaN, whichever.
bool same_bits(const at::Tensor& a, const at::Tensor& b) {
  const at::Tensor is_nan = b.cpu().to(at::kFloat).isnan();
  return at::equal(a.cpu().to(at::kFloat).isnan(), is_nan) &&
         at::equal(bits_of(a).masked_fill(is_nan, 0), bits_of(b).masked_fill(is_nan, 0));
}

// Magnitudes over many powers of two, of which the format keeps some.
at::Tensor some_numbers(std::int64_t n, at::ScalarType type) {
  return at::randn({n}).mul_(at::randint(-6, 7, {n}, at::kFloat).exp2_()).to(type);
}

at::Tensor some_codes(std::int64_t n) {
  return at::randint(0, 256, {n}, at::kInt).to(at::kByte).masked_fill_(at::rand({n}).lt(0.1), 0x7e).view(e4m3);
}

at::Tensor without_nan(const at::Tensor& codes) {
  const at::Tensor bytes = codes.view(at::kByte);
  return bytes.masked_fill(bytes.bitwise_and(0x7f).eq(0x7f), 0x3a).view(e4m3);
}

struct Sizes {
  std::int64_t elements = 0, filled = 0;
};

Sizes sizes_of(const std::vector<FlatPart>& parts) {
  Sizes sizes;
  for (const FlatPart& part : parts) {
    sizes.elements += part.end - part.begin;
    sizes.filled += part.end > part.begin ? 1 : 0;
  }
  return sizes;
}

}  // namespace

TEST_CASE("the largest magnitudes of many tensors are a processor's, in two launches of a GPU") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const std::vector<FlatPart> parts = some_parts();
  const Sizes sizes = sizes_of(parts);
  at::Tensor x = some_numbers(size_of(parts), type);
  x[parts[10].begin] = std::numeric_limits<float>::infinity();
  x[parts[20].end - 1] = std::numeric_limits<float>::quiet_NaN();
  x[parts[64].end - 1] = -1000;
  // Some were found before.
  at::Tensor want = at::zeros({part_count});
  want[5] = 1e30F;
  const at::Tensor got = want.to(at::kCUDA), there = x.to(at::kCUDA);
  largest_of_parts(x, parts, want);
  const Counted search = counted("fp8_largest_of_parts", [&] { largest_of_parts(there, parts, got); });
  CHECK(search.launches == 2);
  CHECK(search.bytes == sizes.elements * x.element_size() + sizes.filled * 8);
  CHECK(same_bits(got, want));
  for (const std::size_t k : {1U, 64U, 65U, 120U})
    CHECK(want[static_cast<std::int64_t>(k)].item<float>() ==
          x.slice(0, parts[k].begin, parts[k].end).to(at::kFloat).abs().max().item<float>());
  CHECK(want[5].item<float>() == 1e30F);
  CHECK(want[20].isnan().item<bool>());
}

TEST_CASE("casts of many tensors have a processor's bits on a GPU, and leave what is between them") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const bool is_scaled = GENERATE(false, true);
  const std::vector<FlatPart> parts = some_parts();
  const Sizes sizes = sizes_of(parts);
  const at::Tensor x = some_numbers(size_of(parts), type), scales = some_scales(-4, 4);
  const at::Tensor x_scales = is_scaled ? some_scales(-14, 14) : at::Tensor();
  const at::Tensor want = at::full({x.numel()}, 0x55, at::kByte).view(e4m3), got = want.to(at::kCUDA);
  const at::Tensor there = x.to(at::kCUDA), far = scales.to(at::kCUDA);
  const at::Tensor x_far = is_scaled ? x_scales.to(at::kCUDA) : at::Tensor();
  cast_parts_to_fp8(x, x_scales, scales, parts, want);
  const Counted cast = counted("fp8_cast_parts", [&] { cast_parts_to_fp8(there, x_far, far, parts, got); });
  CHECK(cast.launches == 2);
  CHECK(cast.bytes == sizes.elements * (x.element_size() + 1) + sizes.filled * (is_scaled ? 8 : 4));
  CHECK(same_bits(got, want));
  for (const std::size_t k : {1U, 64U, 121U}) {
    INFO(k);
    const auto [begin, end, number] = parts[k];
    const at::Tensor own = x.slice(0, begin, end).to(at::kFloat);
    const at::Tensor value = is_scaled ? own / x_scales[number] : own;
    CHECK(same_bits(got.slice(0, begin, end), cast_to_fp8(value, scales.narrow(0, number, 1), Fp8Format::e4m3)));
  }
}

TEST_CASE("many tensors in small types are widened on a GPU to a processor's bits") {
  const auto type = GENERATE(at::kFloat, at::kBFloat16, at::kHalf);
  const bool is_fp8 = GENERATE(false, true);
  const std::vector<FlatPart> parts = some_parts();
  const Sizes sizes = sizes_of(parts);
  const at::Tensor scales = some_scales(-3, 8);
  const at::Tensor payload = is_fp8 ? some_codes(size_of(parts)) : some_numbers(size_of(parts), at::kHalf);
  const at::Tensor want = at::full({payload.numel()}, 7, type), got = want.to(at::kCUDA);
  const at::Tensor there = payload.to(at::kCUDA), far = scales.to(at::kCUDA);
  widen_parts(payload, scales, parts, want);
  const Counted widened = counted("fp8_widen_parts", [&] { widen_parts(there, far, parts, got); });
  CHECK(widened.launches == 2);
  CHECK(widened.bytes == sizes.elements * (payload.element_size() + want.element_size()) + sizes.filled * 4);
  CHECK(same_bits(got, want));
  const auto [begin, end, number] = parts[64];
  const at::Tensor exact = payload.slice(0, begin, end).to(at::kDouble) / scales[number];
  CHECK(at::equal(want.slice(0, begin, end).isnan(), exact.isnan()));
  CHECK(at::equal(want.slice(0, begin, end).nan_to_num(0), exact.to(type).nan_to_num(0)));
}

TEST_CASE("saturated elements of many tensors are counted by number") {
  const std::vector<FlatPart> parts = some_parts();
  const at::Tensor payload = some_codes(size_of(parts)), there = payload.to(at::kCUDA);
  at::Tensor want = at::zeros({part_count});
  for (const auto& [begin, end, number] : parts)
    want[number] += payload.slice(0, begin, end).to(at::kFloat).abs().eq(448).sum();
  CHECK(at::equal(saturated_counts(payload, parts, part_count), want));
  at::Tensor got;
  const Counted count = counted("fp8_count_parts", [&] { got = saturated_counts(there, parts, part_count); });
  CHECK(count.launches == 2);
  CHECK(count.bytes == sizes_of(parts).elements + sizes_of(parts).filled * 16);
  CHECK(same_bits(got, want));
  CHECK(want[64].item<float>() > 1000);
}

// Squares over a scale's are whole numbers of 2⁻¹⁸ here, and some 57,000 of at most 4 · 448² together less than 2⁵³ of
// them at the mean of such codes, so that float64 rounds none of the sums.
TEST_CASE("sums of squares of many tensors are float64's to the last bit, on every device") {
  const std::vector<FlatPart> parts = some_parts();
  const at::Tensor payload = without_nan(some_codes(size_of(parts))), there = payload.to(at::kCUDA);
  const at::Tensor scales = some_scales(-1, 0), far = scales.to(at::kCUDA);
  double want = 0;
  for (const auto& [begin, end, number] : parts)
    want += (payload.slice(0, begin, end).to(at::kDouble) / scales[number]).square().sum().item<double>();
  REQUIRE(want < 0x1p35);
  CHECK(squares_of_parts(payload, scales, parts).item<double>() == want);
  at::Tensor got;
  const Counted squares = counted("fp8_squares_of_parts", [&] { got = squares_of_parts(there, far, parts); });
  CHECK(squares.launches == 2);
  CHECK(got.item<double>() == want);
  CHECK(got.scalar_type() == at::kDouble);
  CHECK(squares_of_parts(there, far, {}).item<double>() == 0);
}

TEST_CASE("a sum of squares shows what is no number, and has the range of float64") {
  const std::vector<FlatPart> parts{{0, 20000, 0}, {20000, 20017, 1}};
  const at::Tensor payload = at::full({20017}, 448, at::kFloat).to(e4m3).to(at::kCUDA);
  const auto sum = [&](double first, double second) {
    return squares_of_parts(payload, at::tensor({first, second}, at::kFloat).to(at::kCUDA), parts).item<double>();
  };
  CHECK(sum(0x1p-100, 0x1p-100) == 20017 * 448.0 * 448.0 * 0x1p200);
  CHECK(sum(0x1p100, 0x1p100) == 20017 * 448.0 * 448.0 * 0x1p-200);
  CHECK(std::isnan(sum(1, std::numeric_limits<double>::quiet_NaN())));
  payload.view(at::kByte).fill_(0xff);
  CHECK(std::isnan(sum(1, 1)));
  payload.view(at::kByte).fill_(0);
  CHECK(sum(1, 1) == 0);
  payload.view(at::kByte)[20016].fill_(0x7f);
  CHECK(std::isnan(sum(1, 1)));
}

}  // namespace llmtrain::kernels
