// SPDX-License-Identifier: Apache-2.0
#include "core/graph/rope_frequencies.h"

#include <catch2/catch.hpp>
#include <cmath>

namespace llmtrain {
namespace {

// Llama 3.1's head, whose scaling its config.json has: factor 8, 1 and 4 turns, 8192 tokens before.
RopeSettings llama_scaled(RopeScalingType type) {
  return {.head_dim = 128,
          .theta = 500000,
          .scaling = RopeScalingRecipe{.type = type, .factor = 8, .original_max_sequence_length = 8192}};
}

double unscaled(std::size_t pair) { return std::pow(500000.0, -static_cast<double>(pair) / 64); }

}  // namespace

TEST_CASE("Linear scaling divides every position by the factor") {
  const auto frequencies = rope_frequencies(llama_scaled(RopeScalingType::linear));
  REQUIRE(frequencies.size() == 64);
  for (std::size_t i = 0; i < 64; ++i) CHECK(frequencies[i] == Approx(unscaled(i) / 8).epsilon(1e-14));
}

// Pairs 0 … 28 have wavelengths below 2048 tokens, pairs 36 and above more than 8192: log(2048/2π)/log(500000)·64
// = 28.2, log(8192/2π)/log(500000)·64 = 35.0.
TEST_CASE("The scaling of Llama 3.1 keeps short wavelengths and stretches long ones") {
  const auto frequencies = rope_frequencies(llama_scaled(RopeScalingType::llama3));
  for (std::size_t i = 0; i <= 28; ++i) CHECK(frequencies[i] == Approx(unscaled(i)).epsilon(1e-14));
  for (std::size_t i = 29; i < 35; ++i) CHECK((frequencies[i] < unscaled(i) && frequencies[i] > unscaled(i) / 8));
  for (std::size_t i = 36; i < 64; ++i) CHECK(frequencies[i] == Approx(unscaled(i) / 8).epsilon(1e-14));
}

// In 8192 tokens a pair turns 32 times where its wavelength is 256 (pair 18.1) and once where it is 8192 (35.0).
TEST_CASE("YaRN goes over from the frequencies to the divided ones linearly in the pair") {
  RopeSettings rope = llama_scaled(RopeScalingType::yarn);
  const auto frequencies = rope_frequencies(rope);
  CHECK(frequencies[18] == Approx(unscaled(18)).epsilon(1e-14));
  CHECK(frequencies[19] < unscaled(19));
  CHECK(frequencies[36] == Approx(unscaled(36) / 8).epsilon(1e-14));
  // From pair 18 to 35 or 36, whichever the rounded end is: half of the way is a mean of equal shares.
  const double end = std::ceil(std::log(8192 / (2 * M_PI)) / std::log(500000.0) * 64);
  const double share = 1 - (27 - 18) / (end - 18);
  CHECK(frequencies[27] == Approx(unscaled(27) * (share + (1 - share) / 8)).epsilon(1e-12));
  rope.scaling->truncate = false;
  CHECK(rope_frequencies(rope)[18] == Approx(unscaled(18)).epsilon(1e-14));
  CHECK(rope_frequencies(rope)[27] != frequencies[27]);
}

TEST_CASE("Only YaRN changes the amplitude of rotations") {
  RopeSettings rope = llama_scaled(RopeScalingType::yarn);
  rope.scaling->attention_factor = 1.25;
  CHECK(rope_amplitude(rope) == 1.25);
  rope.scaling->type = RopeScalingType::llama3;
  CHECK(rope_amplitude(rope) == 1);
  rope.scaling.reset();
  CHECK(rope_amplitude(rope) == 1);
}

}  // namespace llmtrain
