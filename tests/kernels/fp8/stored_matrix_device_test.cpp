// SPDX-License-Identifier: Apache-2.0
// Casts of matrices that are kept in fp16 or E4M3, on the emulated GPU: bits of a processor's, which widens them first.
#include <ATen/ATen.h>

#include <catch2/catch.hpp>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "kernels/fp8/stored_matrix.h"
#include "tests/kernels/fp8/launch_counts.h"

namespace llmtrain::kernels {
namespace {

struct Shape {
  std::vector<std::int64_t> rows;  // of each part
  std::int64_t columns;
  at::ScalarType kept = at::kHalf, type = at::kBFloat16;
  bool is_read_as_kept = true;
};

// One part and several, of several blocks and tiles; what is widened first: parts or columns that are cut anywhere,
// more parts than a kernel takes, other types.
const std::vector<Shape> shapes{{{4}, 16},
                                {{128, 4, 4}, 48},
                                {{68, 260}, 80},
                                {{8, 4, 8, 132}, 144},
                                {{6, 10}, 32, at::kHalf, at::kBFloat16, false},
                                {{8, 8}, 20, at::kHalf, at::kBFloat16, false},
                                {{4, 4, 4, 4, 4}, 16, at::kHalf, at::kBFloat16, false},
                                {{12, 4}, 32, at::kHalf, at::kHalf, false},
                                {{12, 4}, 32, at::kHalf, at::kFloat, false},
                                {{12, 4}, 32, at::kFloat8_e4m3fn, at::kBFloat16, false}};

// Each part in a magnitude of its own, so that another part's scale would show, and among them what is no number.
StoredMatrix some_matrix(const Shape& shape, bool is_finite) {
  StoredMatrix matrix;
  matrix.type = shape.type;
  matrix.scales = at::empty({static_cast<std::int64_t>(shape.rows.size())}, at::kFloat);
  std::vector<at::Tensor> parts;
  std::int64_t end = 0;
  for (std::size_t i = 0; i < shape.rows.size(); ++i) {
    const std::int64_t begin = end, number = static_cast<std::int64_t>(i);
    end += shape.rows[i] * shape.columns;
    matrix.parts.push_back({begin, end, number});
    matrix.scales[number] = i % 2 == 0 ? 0x1p-3 : 0x1p5;
    parts.push_back(at::randn({shape.rows[i], shape.columns}).mul_(at::randint(-6, 7, {1}, at::kFloat).exp2_()));
  }
  at::Tensor all = at::cat(parts).mul_(16);
  if (!is_finite) all[0][1] = std::numeric_limits<float>::infinity();
  // LibTorch makes NaN of what is beyond E4M3's range.
  matrix.payload = (shape.kept == at::kHalf ? all : all.clamp(-448, 448)).to(shape.kept);
  return matrix;
}

StoredMatrix on_gpu(const StoredMatrix& matrix) {
  return {matrix.payload.to(at::kCUDA), matrix.scales.to(at::kCUDA), matrix.parts, matrix.type};
}

at::Tensor kept_bits(const at::Tensor& x) {
  const at::Tensor here = x.cpu();
  return here.view(here.element_size() == 1 ? at::kByte : here.element_size() == 2 ? at::kShort : at::kInt);
}

std::string title_of(const Shape& shape) {
  return std::to_string(shape.rows.size()) + " parts of " + std::to_string(shape.columns) + " columns in " +
         c10::toString(shape.kept) + " for " + c10::toString(shape.type);
}

}  // namespace

TEST_CASE("a GPU casts matrices from what they are kept as to a processor's bits") {
  const at::Tensor scale = at::full({1}, 0x1p-1, at::kFloat);
  for (const Shape& shape : shapes) {
    INFO(title_of(shape));
    const StoredMatrix matrix = some_matrix(shape, true), there = on_gpu(matrix);
    const at::Tensor values = widened(matrix), scale_there = scale.to(at::kCUDA);
    CHECK(at::equal(kept_bits(widened(there)), kept_bits(values)));
    const at::Tensor wanted = cast_to_fp8(values, scale, Fp8Format::e4m3);
    CHECK(at::equal(kept_bits(cast_to_fp8(matrix, scale)), kept_bits(wanted)));
    CHECK(at::equal(kept_bits(cast_to_fp8(there, scale_there)), kept_bits(wanted)));
    const at::Tensor turned = wanted.view(at::kByte).t().contiguous();
    CHECK(at::equal(kept_bits(cast_to_fp8_transposed(matrix, scale)), turned));
    CHECK(at::equal(kept_bits(cast_to_fp8_transposed(there, scale_there)), turned));
    const ShownFp8 shown = cast_and_show(there, scale_there);
    CHECK(at::equal(kept_bits(shown.values), kept_bits(wanted)));
    CHECK(at::equal(shown.scale.cpu(), scale));
    CHECK(at::equal(shown.largest.cpu().view({}), largest_magnitude(values).view({})));
  }
}

TEST_CASE("a GPU reads once what it casts from fp16, and shows what is not finite") {
  const at::Tensor scale = at::full({1}, 2, at::dtype(at::kFloat).device(at::kCUDA));
  for (const Shape& shape : shapes) {
    INFO(title_of(shape));
    const std::int64_t widenings = shape.is_read_as_kept ? 0 : 1;
    const StoredMatrix there = on_gpu(some_matrix(shape, true));
    const Counted widened_first = counted("fp8_widen_parts", [&] { cast_to_fp8(there, scale); });
    CHECK(widened_first.launches == widenings);
    // The cast reads two bytes and writes one; scales are 4 bytes each.
    const std::int64_t scales = 4 * (1 + there.scales.numel());
    if (shape.is_read_as_kept) {
      const Counted cast = counted("fp8_cast", [&] { cast_to_fp8(there, scale); });
      CHECK(cast.launches == 1);
      CHECK(cast.bytes == 3 * there.payload.numel() + scales);
      CHECK(counted("fp8_turn", [&] { cast_to_fp8_transposed(there, scale); }).launches == 1);
    }
    CHECK(counted("fp8_widen_parts", [&] { cast_to_fp8_transposed(there, scale); }).launches == widenings);
    CHECK(counted("fp8_widen_parts", [&] { cast_and_show(there, scale); }).launches == widenings);
    if (shape.kept != at::kHalf) continue;  // E4M3 has no infinity
    const ShownFp8 shown = cast_and_show(on_gpu(some_matrix(shape, false)), scale);
    CHECK(shown.scale.cpu().isnan().all().item<bool>());
    CHECK(shown.values.cpu().to(at::kFloat).isnan().all().item<bool>());
  }
}

}  // namespace llmtrain::kernels
