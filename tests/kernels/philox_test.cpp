// SPDX-License-Identifier: Apache-2.0
#include "kernels/random/philox.h"

#include <catch2/catch.hpp>

using llmtrain::kernels::philox;
using Words = std::array<std::uint32_t, 4>;

// The known answers of Random123 1.14 (kat_vectors, philox4x32-10).
TEST_CASE("philox gives the published known answers") {
  CHECK(philox(0, 0, 0) == Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8});
  CHECK(philox(~0ULL, ~0ULL, ~0ULL) == Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd});
  CHECK(philox(0x299f31d0a4093822, 0x85a308d3243f6a88, 0x0370734413198a2e) ==
        Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1});
}

TEST_CASE("philox is usable at compile time") {
  static_assert(philox(0, 0, 0)[0] == 0x6627e8d5);
  CHECK(philox(0, 0, 0) != philox(0, 1, 0));
  CHECK(philox(0, 0, 0) != philox(0, 0, 1));
}
