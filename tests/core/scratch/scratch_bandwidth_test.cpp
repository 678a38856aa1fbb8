// SPDX-License-Identifier: Apache-2.0
#include "core/scratch/scratch_bandwidth.h"

#include <catch2/catch.hpp>
#include <chrono>
#include <cmath>
#include <filesystem>

#include "core/base/error.h"
#include "core/scratch/scratch_file.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

bool is_on_disk(const std::filesystem::path& folder) {
  const ScratchFile file(folder, ScratchFile::alignment, "/key");
  return file.is_direct() && !file.is_in_memory();
}

}  // namespace

TEST_CASE("a disk's bandwidth is of all bytes that were moved, within the time that passed") {
  const TemporaryDirectory directory;
  if (!is_on_disk(directory.path())) return;
  // Less than a block, and blocks of which the last is short; each pass moves all of them both ways.
  for (const std::int64_t bytes : {std::int64_t{4096}, (std::int64_t{25} << 20) + 4096}) {
    const auto start = std::chrono::steady_clock::now();
    const double rate = scratch_bandwidth(directory.path(), bytes, std::chrono::seconds(0), "/key");
    const std::chrono::duration<double> passed = std::chrono::steady_clock::now() - start;
    CHECK(std::isfinite(rate));
    CHECK(rate * passed.count() >= 2 * static_cast<double>(bytes));
    CHECK(std::filesystem::is_empty(directory.path()));
  }
}

TEST_CASE("a file in memory says nothing of a disk") {
  const std::filesystem::path memory = "/dev/shm";
  if (!std::filesystem::exists(memory) || !ScratchFile(memory, ScratchFile::alignment, "/key").is_in_memory()) return;
  CHECK_THROWS_WITH(scratch_bandwidth(memory, 4096, std::chrono::seconds(0), "--disk"),
                    Catch::StartsWith("--disk: /dev/shm: is in memory"));
}

}  // namespace llmtrain::test
