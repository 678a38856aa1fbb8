// SPDX-License-Identifier: Apache-2.0
#include "core/scratch/scratch_stream.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdint>
#include <optional>
#include <vector>

#include "core/base/error.h"
#include "tests/core/scratch/aligned_bytes.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

// What a file should hold: one number per unit, which all its bytes have.
using Contents = std::vector<std::uint8_t>;

bool holds(std::span<const std::byte> bytes, const Contents& contents, std::int64_t first) {
  for (std::size_t i = 0; i < bytes.size(); ++i)
    if (bytes[i] != std::byte{contents[static_cast<std::size_t>(first) + i / unit]}) return false;
  return true;
}

// Blocks of one to three units, one after another.
std::vector<ScratchBlock> some_blocks() {
  std::vector<ScratchBlock> blocks;
  std::int64_t offset = 0;
  for (const int units : *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 4))) {
    blocks.push_back({offset, units * unit});
    offset += units * unit;
    if (blocks.size() == 6) break;
  }
  if (blocks.empty()) blocks.push_back({0, unit});
  return blocks;
}

TEST_CASE("whatever is asked for in whatever order, a block is what was last left in it") {
  const TemporaryDirectory directory;
  CHECK(rc::check("any order of blocks, reads and writes", [&] {
    const std::vector<ScratchBlock> blocks = some_blocks();
    const std::int64_t bytes = blocks.back().offset + blocks.back().bytes;
    const ScratchFile file(directory.path(), bytes, "/key");
    const AlignedBytes first(3 * unit), second(3 * unit), other(3 * unit);
    Contents contents(static_cast<std::size_t>(bytes / unit), 0);
    std::int64_t written = 0;
    ScratchStream stream(file, {first.bytes(), second.bytes()});
    const auto any = [&] { return *rc::gen::elementOf(blocks); };
    const auto change = [&](std::span<std::byte> to, std::int64_t at) {
      for (std::size_t i = 0; i < to.size() / unit; ++i) {
        auto& content = contents[static_cast<std::size_t>(at / unit) + i];
        content = static_cast<std::uint8_t>(content * 3 + 1 + i);
        std::fill_n(to.begin() + static_cast<std::ptrdiff_t>(i) * unit, unit, std::byte{content});
      }
    };
    std::optional<ScratchBlock> next;
    for (int turn = *rc::gen::inRange(0, 12); turn > 0; --turn) {
      const ScratchBlock block = any();
      const std::span<std::byte> own = other.bytes().first(static_cast<std::size_t>(block.bytes));
      switch (*rc::gen::inRange(0, 4)) {
        case 0:
          stream.read(block.offset, own);
          RC_ASSERT(holds(own, contents, block.offset / unit));
          break;
        case 1:
          change(own, block.offset);
          stream.write(block.offset, own);
          break;
        default: {
          // Mostly what was announced.
          const ScratchBlock here = next && *rc::gen::inRange(0, 4) > 0 ? *next : block;
          next = *rc::gen::inRange(0, 4) > 0 ? std::optional(any()) : std::nullopt;
          const std::span<std::byte> place = stream.begin(here, next);
          RC_ASSERT(holds(place, contents, here.offset / unit));
          change(place, here.offset);
          stream.end();
          written += here.bytes;
          break;
        }
      }
    }
    RC_ASSERT(stream.bytes_written() == written);
    RC_ASSERT(stream.bytes_read() >= written);
  }));
}

TEST_CASE("blocks that come as announced are each read and written once") {
  const TemporaryDirectory directory;
  const ScratchFile file(directory.path(), 5 * unit, "/key");
  const AlignedBytes first(unit), second(unit);
  ScratchStream stream(file, {first.bytes(), second.bytes()});
  const auto block = [](std::int64_t i) { return ScratchBlock{i * unit, unit}; };
  for (int step = 0; step < 3; ++step)
    for (std::int64_t i = 0; i < 5; ++i) {
      stream.begin(block(i), i < 4 ? std::optional(block(i + 1)) : std::nullopt);
      stream.end();
    }
  CHECK(stream.bytes_read() == 15 * unit);
  CHECK(stream.bytes_written() == 15 * unit);
}

TEST_CASE("a failure of the file's thread reaches the caller, also at later calls") {
  const TemporaryDirectory directory;
  const ScratchFile file(directory.path(), unit, "/key");
  const AlignedBytes first(unit), second(unit);
  ScratchStream stream(file, {first.bytes(), second.bytes()});
  // What is read ahead is not there.
  stream.begin({0, unit}, ScratchBlock{unit, unit});
  stream.end();
  CHECK_THROWS_AS(stream.begin({unit, unit}, std::nullopt), Error);
  CHECK_THROWS_AS(stream.begin({0, unit}, std::nullopt), Error);
}

}  // namespace
}  // namespace llmtrain::test
