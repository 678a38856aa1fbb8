// SPDX-License-Identifier: Apache-2.0
#include "kernels/vector/random.h"

#include "kernels/random/philox.h"

// The mathematical functions of C libraries differ in the last bit between versions and processors, and initial weights
// must not. So logarithm, sine and cosine are written here with additions, multiplications and divisions, which IEEE
// 754 rounds identically everywhere; CMakeLists.txt keeps the compiler from fusing any of them.

namespace llmtrain::kernels::vector {
namespace {

// A block of pairs at a time, so that the loops below vectorise.
constexpr int pairs_per_block = 64;
constexpr int elements_per_block = 2 * pairs_per_block;

// The upper 52 of 64 bits as a multiple of 2⁻⁵² in [0, 1).
double uniform(std::uint32_t low, std::uint32_t high) {
  // The bits become the mantissa of a number in [1, 2); subtracting 1 is exact.
  const std::uint64_t bits = low | static_cast<std::uint64_t>(high) << 32;
  return __builtin_bit_cast(double, bits >> 12 | 0x3FF0000000000000ULL) - 1.0;
}

// ln x for normal x in (0, 1]: x = m·2^e with m in (√½, √2], then ln m = 2·artanh s with s = (m − 1)/(m + 1).
double logarithm(double x) {
  const auto bits = __builtin_bit_cast(std::uint64_t, x);
  // The biased exponent as a double: placed in the mantissa of 2⁵², from which 2⁵² is subtracted.
  const double biased = __builtin_bit_cast(double, bits >> 52 | 0x4330000000000000ULL) - 4503599627370496.0;
  const double whole = __builtin_bit_cast(double, (bits & 0x000FFFFFFFFFFFFFULL) | 0x3FF0000000000000ULL);
  const bool large = whole > 1.4142135623730951;
  const double m = large ? whole * 0.5 : whole;
  const double e = biased - (large ? 1022.0 : 1023.0);
  const double s = (m - 1.0) / (m + 1.0);
  const double z = s * s;
  // artanh's series in s²: |s| < 0.172, so the first term left out is below 1e−17.
  double series = 1.0 / 21;
  series = series * z + 1.0 / 19;
  series = series * z + 1.0 / 17;
  series = series * z + 1.0 / 15;
  series = series * z + 1.0 / 13;
  series = series * z + 1.0 / 11;
  series = series * z + 1.0 / 9;
  series = series * z + 1.0 / 7;
  series = series * z + 1.0 / 5;
  series = series * z + 1.0 / 3;
  return e * 0.6931471805599453 + (2.0 * s + 2.0 * s * z * series);
}

struct Direction {
  double cosine, sine;
};

// Cosine and sine of the angle 2π·turn, turn in [0, 1): reduced to the nearest quarter turn, then Taylor's series
// within π/4 of it.
Direction direction_of(double turn) {
  constexpr double rounding = 6755399441055744.0;  // 1.5·2⁵²: rounds to an integer and leaves it in the low bits
  const double shifted = turn * 4.0 + rounding;
  const auto quarter = __builtin_bit_cast(std::uint64_t, shifted);
  const double angle = (turn * 4.0 - (shifted - rounding)) * 1.5707963267948966;
  const double z = angle * angle;
  double sine = -1.0 / 1307674368000;
  sine = sine * z + 1.0 / 6227020800;
  sine = sine * z - 1.0 / 39916800;
  sine = sine * z + 1.0 / 362880;
  sine = sine * z - 1.0 / 5040;
  sine = sine * z + 1.0 / 120;
  sine = sine * z - 1.0 / 6;
  sine = sine * z * angle + angle;
  double cosine = 1.0 / 20922789888000;
  cosine = cosine * z - 1.0 / 87178291200;
  cosine = cosine * z + 1.0 / 479001600;
  cosine = cosine * z - 1.0 / 3628800;
  cosine = cosine * z + 1.0 / 40320;
  cosine = cosine * z - 1.0 / 720;
  cosine = cosine * z + 1.0 / 24;
  cosine = cosine * z - 1.0 / 2;
  cosine = cosine * z + 1.0;
  // Branches would keep the loop from being vectorised: swap by mask, change signs by bits.
  const auto c = __builtin_bit_cast(std::uint64_t, cosine);
  const auto s = __builtin_bit_cast(std::uint64_t, sine);
  const std::uint64_t swap = (c ^ s) & (0 - (quarter & 1));
  return {__builtin_bit_cast(double, (c ^ swap) ^ ((quarter + 1) & 2) << 62),
          __builtin_bit_cast(double, (s ^ swap) ^ (quarter & 2) << 62)};
}

// Standard normal numbers 2·first_pair … 2·first_pair + elements_per_block − 1 of the key's sequence.
void fill_block(std::uint64_t key, std::uint64_t first_pair, double (&normal)[elements_per_block]) {
  std::uint32_t words[4][pairs_per_block];
  for (int i = 0; i < pairs_per_block; ++i) {
    const std::uint64_t pair = first_pair + static_cast<std::uint64_t>(i);
    std::uint32_t c[4] = {static_cast<std::uint32_t>(pair), static_cast<std::uint32_t>(pair >> 32), 0, 0};
    philox_in_place(key, c);
    // Word by word, so that the second loop reads consecutive memory.
    for (int k = 0; k < 4; ++k) words[k][i] = c[k];
  }
  for (int i = 0; i < pairs_per_block; ++i) {
    // 1 − u is in (0, 1]: the logarithm never sees 0.
    const double radius = __builtin_sqrt(-2.0 * logarithm(1.0 - uniform(words[0][i], words[1][i])));
    const Direction direction = direction_of(uniform(words[2][i], words[3][i]));
    normal[2 * i] = radius * direction.cosine;
    normal[2 * i + 1] = radius * direction.sine;
  }
}

template <class Value>
void fill(Value* x, std::int64_t n, std::uint64_t first_element, const NormalSequence& sequence) {
  double normal[elements_per_block];
  std::uint64_t pair = first_element / 2;
  // A pair is one counter: a range may start with the second number of a pair.
  auto skipped = static_cast<std::int64_t>(first_element % 2);
  while (n > 0) {
    fill_block(sequence.key, pair, normal);
    const std::int64_t length = n < elements_per_block - skipped ? n : elements_per_block - skipped;
    for (std::int64_t i = 0; i < length; ++i) {
      x[i] = static_cast<Value>(normal[skipped + i] * sequence.standard_deviation);
    }
    x += length;
    n -= length;
    pair += pairs_per_block;
    skipped = 0;
  }
}

}  // namespace

template <>
RandomKernels random_kernels_for<LLMTRAIN_VECTOR_LEVEL>() {
  return {fill<float>, fill<double>};
}

}  // namespace llmtrain::kernels::vector
