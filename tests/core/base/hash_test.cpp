// SPDX-License-Identifier: Apache-2.0
#include "core/base/hash.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <string>
#include <string_view>

namespace llmtrain {
namespace {

std::string sha256(std::string_view text, std::size_t piece) {
  Sha256 hash;
  for (std::size_t begin = 0; begin < text.size(); begin += piece)
    hash.update(text.data() + begin, std::min(piece, text.size() - begin));
  return hash.hexadecimal();
}

// Test vectors of the FNV draft (draft-eastlake-fnv, section 6).
TEST_CASE("The stable hash is FNV-1a of 64 bits") {
  CHECK(stable_hash("") == 0xcbf29ce484222325ULL);
  CHECK(stable_hash("a") == 0xaf63dc4c8601ec8cULL);
  CHECK(stable_hash("foobar") == 0x85944171f73967e8ULL);
}

TEST_CASE("The stable hash takes bytes above 127 as unsigned") {
  CHECK(stable_hash("\xff") == (0xcbf29ce484222325ULL ^ 0xffULL) * 0x100000001b3ULL);
}

TEST_CASE("The hash of memory changes with every bit, and with the length") {
  std::string memory(83, '\0');  // two blocks, two words and three bytes
  for (std::size_t i = 0; i < memory.size(); ++i) memory[i] = static_cast<char>(37 * i);
  const std::uint64_t whole = memory_hash(memory.data(), memory.size());
  for (std::size_t bit = 0; bit < 8 * memory.size(); ++bit) {
    std::string changed = memory;
    changed[bit / 8] = static_cast<char>(changed[bit / 8] ^ (1 << bit % 8));
    REQUIRE(memory_hash(changed.data(), changed.size()) != whole);
  }
  // Words that change places, also by as many as are hashed side by side.
  for (const std::size_t distance : {8, 16, 32}) {
    std::string changed = memory;
    std::swap_ranges(changed.begin(), changed.begin() + 8, changed.begin() + static_cast<std::ptrdiff_t>(distance));
    CHECK(memory_hash(changed.data(), changed.size()) != whole);
  }
  CHECK(memory_hash(memory.data(), 82) != whole);
  CHECK(memory_hash(memory.data(), memory.size(), 1) != whole);
}

// Test vectors of FIPS 180-4.
TEST_CASE("SHA-256 matches the standard's test vectors, however the bytes are split") {
  const std::size_t piece = GENERATE(1, 3, 64, 1000);
  CHECK(sha256("", piece) == "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  CHECK(sha256("abc", piece) == "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  CHECK(sha256("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq", piece) ==
        "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
}

TEST_CASE("SHA-256 of a million letters") {
  CHECK(sha256(std::string(1'000'000, 'a'), 4096) ==
        "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

}  // namespace
}  // namespace llmtrain
