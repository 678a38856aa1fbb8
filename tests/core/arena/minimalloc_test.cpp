// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <sstream>
#include <string>
#include <vector>

#include "core/arena/packing.h"
#include "tests/core/arena/packing_check.h"
#include "tests/support/source_folder.h"

namespace llmtrain::test {
namespace {

// Rows of id, lower, upper (exclusive) and size.
std::vector<Buffer> read_buffers(const std::filesystem::path& file) {
  std::ifstream in(file);
  std::string line;
  std::getline(in, line);
  REQUIRE(line == "id,lower,upper,size");
  std::vector<Buffer> buffers;
  while (std::getline(in, line)) {
    std::istringstream row(line);
    std::int64_t id = 0, lower = 0, upper = 0, size = 0;
    char comma = 0;
    row >> id >> comma >> lower >> comma >> upper >> comma >> size;
    REQUIRE(!row.fail());
    buffers.push_back({size, lower, upper - 1});
  }
  return buffers;
}

}  // namespace

TEST_CASE("minimalloc's eleven hard cases are packed into 1.3 times their capacity") {
  const std::filesystem::path folder = source_folder() / "tests/core/arena/minimalloc";
  constexpr std::int64_t capacity = 1 << 20;
  for (char name = 'A'; name <= 'K'; ++name) {
    CAPTURE(name);
    const auto buffers = read_buffers(folder / (std::string(1, name) + ".1048576.csv"));
    REQUIRE(buffers.size() > 150);
    const Packing packing = pack(buffers);
    CHECK(fault_of(buffers, packing, 512) == "");
    CHECK(packing.height >= least_height(buffers));
    // Their capacity can be reached, so that no moment needs more.
    CHECK(least_height(buffers, 1) <= capacity);
    CHECK(static_cast<double>(packing.height) <= 1.3 * capacity);
  }
}

}  // namespace llmtrain::test
