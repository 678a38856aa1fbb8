// SPDX-License-Identifier: Apache-2.0
#include "core/scratch/scratch_reader.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstdint>
#include <deque>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "tests/core/scratch/aligned_bytes.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

// A file of blocks of one to three units, each of which is full of its own number, and buffers for it.
struct Blocks {
  Blocks(const std::filesystem::path& folder, const std::vector<int>& units, std::size_t buffer_count)
      : file(folder, total(units) * unit, "/key") {
    std::int64_t offset = 0;
    for (const int count : units) {
      const AlignedBytes content(count * unit, static_cast<int>(blocks.size()) + 1);
      file.write(offset, content.bytes());
      blocks.push_back({offset, count * unit});
      offset += count * unit;
    }
    for (std::size_t i = 0; i < buffer_count; ++i) buffers.push_back(memory.emplace_back(3 * unit).bytes());
  }

  static std::int64_t total(const std::vector<int>& units) {
    std::int64_t sum = 0;
    for (const int count : units) sum += count;
    return sum;
  }

  bool is(std::span<const std::byte> bytes, std::size_t block) const {
    return std::ssize(bytes) == blocks[block].bytes &&
           std::ranges::all_of(bytes, [&](std::byte each) { return each == static_cast<std::byte>(block + 1); });
  }

  ScratchFile file;
  std::vector<ScratchBlock> blocks;
  std::deque<AlignedBytes> memory;
  ScratchReader::Buffers buffers;
};

TEST_CASE("in whatever order blocks are asked for, each is itself for as long as it is used") {
  const TemporaryDirectory directory;
  CHECK(rc::check("any blocks, buffers and order", [&] {
    auto units = *rc::gen::container<std::vector<int>>(rc::gen::inRange(1, 4));
    units.resize(std::clamp<std::size_t>(units.size(), 1, 7), 1);
    const Blocks given(directory.path(), units, *rc::gen::inRange<std::size_t>(2, 5));
    ScratchReader reader(given.file, given.blocks, given.buffers);
    std::size_t next = *rc::gen::inRange<std::size_t>(0, units.size());
    std::int64_t used = 0;
    for (int turn = *rc::gen::inRange(0, 30); turn > 0; --turn) {
      // Mostly in order.
      if (*rc::gen::inRange(0, 6) == 0) next = *rc::gen::inRange<std::size_t>(0, units.size());
      const std::span<const std::byte> bytes = reader.begin(next);
      RC_ASSERT(given.is(bytes, next));
      // What is read ahead meanwhile goes elsewhere.
      if (*rc::gen::inRange(0, 4) == 0) std::this_thread::sleep_for(std::chrono::microseconds(200));
      RC_ASSERT(given.is(bytes, next));
      reader.end();
      used += given.blocks[next].bytes;
      next = (next + 1) % units.size();
    }
    RC_ASSERT(reader.bytes_used() == used);
  }));
}

TEST_CASE("blocks in their order are each read once in each round, ahead by the buffers at most") {
  const TemporaryDirectory directory;
  const std::size_t buffers = GENERATE(2U, 3U);
  const Blocks given(directory.path(), {1, 2, 3, 1, 2}, buffers);
  ScratchReader reader(given.file, given.blocks, given.buffers);
  constexpr std::int64_t round_bytes = 9 * unit, rounds = 4;
  CHECK(reader.bytes_read() == 0);
  for (std::int64_t round = 0; round < rounds; ++round)
    for (std::size_t block = 0; block < given.blocks.size(); ++block) {
      CHECK(given.is(reader.begin(block), block));
      reader.end();
    }
  CHECK(reader.bytes_used() == rounds * round_bytes);
  CHECK(reader.bytes_read() >= rounds * round_bytes);
  CHECK(reader.bytes_read() <= (rounds * round_bytes) + (static_cast<std::int64_t>(buffers) * 3 * unit));
}

// The next block is there when the one before has been used for as long as reading takes.
TEST_CASE("blocks are read while the one before is used, and no faster than is allowed") {
  const TemporaryDirectory directory;
  const Blocks given(directory.path(), {1, 1, 1, 1}, 2);
  constexpr double seconds = 0.02;  // of a block: far more than a disk takes
  ScratchReader reader(given.file, given.blocks, given.buffers, unit / seconds);
  const auto pass = [&](double used) {
    const auto start = std::chrono::steady_clock::now();
    for (std::size_t block = 0; block < given.blocks.size(); ++block) {
      reader.begin(block);
      std::this_thread::sleep_for(std::chrono::duration<double>(used));
      reader.end();
    }
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  pass(0);
  // One after another they would take twice as long. Two of the four were read before.
  const double both = pass(seconds);
  CHECK(both >= 4 * seconds);
  CHECK(both < 7 * seconds);
  pass(0);
  CHECK(pass(0) >= 3 * seconds);
}

TEST_CASE("a reader's failure reaches whoever waits for a block, also later") {
  const TemporaryDirectory directory;
  Blocks given(directory.path(), {1, 1}, 2);
  given.blocks.push_back({5 * unit, unit});  // behind the end
  ScratchReader reader(given.file, given.blocks, given.buffers);
  CHECK(given.is(reader.begin(0), 0));
  reader.end();
  CHECK_THROWS_AS(
      [&] {
        reader.begin(1);
        reader.end();
        reader.begin(2);
      }(),
      Error);
  CHECK_THROWS_AS(reader.begin(0), Error);
}

}  // namespace
}  // namespace llmtrain::test
