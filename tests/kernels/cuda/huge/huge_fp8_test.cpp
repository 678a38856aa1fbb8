// SPDX-License-Identifier: Apache-2.0
// The kernels of FP8 over more than 2³¹ elements.
#include <catch2/catch.hpp>
#include <cstdint>

#include "kernels/cuda/fp8/fp8_kernels.h"
#include "tests/kernels/cuda/huge/huge_rows.h"

namespace llmtrain::kernels {
namespace {

using Element = __nv_bfloat16;
using Codes = HugeRows<unsigned char>;
using Floats = HugeRows<float>;
constexpr KernelElement element = KernelElement::bf16;
constexpr std::int64_t ends = 1000, huge = beyond_int + ends;
const float scale = 16;

// What a kernel says of magnitudes.
struct Measured {
  explicit Measured(std::int64_t partials = most_fp8_partials) : of_blocks(partials, 1) {}
  Fp8Measure measure() const { return {of_blocks.data(), largest.data(), shown.data()}; }
  HugeRows<unsigned> of_blocks;
  Floats largest{1, 1}, shown{1, 1};
};

}  // namespace

TEST_CASE("A GPU's casts to FP8 and back address more than 2^31 elements") {
  check_last_rows(huge, ends, {1, 1}, [](std::int64_t n) {
    const HugeRows<Element> x(n, 1, ends, 1), rounded(n, 1), wide(n, 1);
    const Codes codes(n, 1);
    const Measured cast, round;
    cuda_fp8_kernels.cast({element, Fp8Format::e4m3, x.data(), &scale, codes.data(), 1, n, cast.measure(), {}},
                          nullptr);
    cuda_fp8_kernels.round({element, Fp8Format::e4m3, x.data(), &scale, rounded.data(), 1, n, round.measure(), {}},
                           nullptr);
    cuda_fp8_kernels.widen({element, Fp8Format::e4m3, codes.data(), &scale, wide.data(), 1, n}, nullptr);
    return joined({codes.last(ends), rounded.last(ends), wide.last(ends), cast.largest.last(1), round.largest.last(1)});
  });
}

TEST_CASE("A GPU's casts of rows with scales of their own address more than 2^31 elements") {
  constexpr std::int64_t columns = 4096, rows_at_end = 2;
  check_last_rows(beyond_int / columns + rows_at_end, rows_at_end, {2, 2}, [](std::int64_t rows) {
    const HugeRows<Element> x(rows, columns, rows_at_end, 1);
    const Floats scales(rows, 1, rows_at_end, 2), largest(rows, 1);
    const Codes codes(rows, columns);
    const HugeRows<unsigned> partials(rows * fp8_row_parts(rows, columns), 1);
    cuda_fp8_kernels.cast({element, Fp8Format::e4m3, x.data(), scales.data(), codes.data(), rows, columns, {}, {}},
                          nullptr);
    cuda_fp8_kernels.largest({element, x.data(), partials.data(), largest.data(), rows, columns}, nullptr);
    return joined({codes.last(rows_at_end * columns), largest.last(rows_at_end)});
  });
}

TEST_CASE("A GPU finds the largest of more than 2^31 elements, and counts saturated ones") {
  check_last_rows(huge, ends, {1, 1}, [](std::int64_t n) {
    const HugeRows<Element> x(n, 1, ends, 1);
    const Codes codes(n, 1);
    for (std::int64_t i = 1; i <= 7; ++i) codes.from_end(i) = 0x7e;
    const HugeRows<unsigned> partials(most_fp8_partials, 1), of_codes(most_fp8_partials, 1);
    const Floats largest(1, 1), count(1, 1);
    cuda_fp8_kernels.largest({element, x.data(), partials.data(), largest.data(), 1, n}, nullptr);
    cuda_fp8_kernels.count_saturated({Fp8Format::e4m3, codes.data(), of_codes.data(), count.data(), n}, nullptr);
    CHECK(count.last(1) == Values{7});
    return joined({largest.last(1), count.last(1)});
  });
}

TEST_CASE("A GPU turns matrices of more than 2^31 elements") {
  constexpr std::int64_t columns = 4096, rows_at_end = 16;
  // Tiles begin at multiples of this many rows, as in the small matrix.
  check_last_rows(beyond_int / columns + rows_at_end, rows_at_end, {1, 64}, [](std::int64_t rows) {
    const HugeRows<Element> x(rows, columns, rows_at_end, 1);
    const Codes turned(columns, rows), codes(rows, columns);
    const Measured measured(fp8_turn_tiles(element, columns, rows));
    cuda_fp8_kernels.turn({element,
                           Fp8Format::e5m2,
                           x.data(),
                           &scale,
                           turned.data(),
                           rows,
                           columns,
                           rows,
                           codes.data(),
                           measured.measure(),
                           {}},
                          nullptr);
    return joined({turned.last(rows_at_end), codes.last(rows_at_end * columns), measured.largest.last(1)});
  });
}

TEST_CASE("A GPU's casts, maxima, counts and squares of parts address more than 2^31 elements") {
  check_last_rows(huge, ends, {1, 1}, [](std::int64_t n) {
    const FlatPart whole{0, n, 0};
    const FlatParts parts{&whole, 1};
    const HugeRows<Element> x(n, 1, ends, 1), wide(n, 1);
    const Codes codes(n, 1);
    const Floats largest(1, 1);
    const HugeRows<std::int64_t> counts(1, 1);
    const HugeRows<double> partials(fp8_portions(whole), 1), sum(1, 1);
    cuda_fp8_kernels.largest_of_parts({parts, element, x.data(), largest.data()}, nullptr);
    cuda_fp8_kernels.cast_parts({parts, element, x.data(), nullptr, &scale, codes.data()}, nullptr);
    codes.from_end(3) = 0x7e;
    cuda_fp8_kernels.widen_parts({parts, true, codes.data(), &scale, element, wide.data()}, nullptr);
    cuda_fp8_kernels.count_saturated_parts({parts, codes.data(), counts.data()}, nullptr);
    cuda_fp8_kernels.squares_of_parts({parts, codes.data(), &scale, partials.data(), sum.data()}, nullptr);
    return joined({largest.last(1), codes.last(ends), wide.last(ends), counts.last(1), sum.last(1)});
  });
}

}  // namespace llmtrain::kernels
