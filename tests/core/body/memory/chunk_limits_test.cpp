// SPDX-License-Identifier: Apache-2.0
// Pieces chosen for a limit of bytes: what a forward and a backward allocate, as LibTorch's allocator reports it, is at
// most what was planned, and that at most the limit.
#include <algorithm>
#include <catch2/catch.hpp>
#include <variant>

#include "core/arena/packing.h"
#include "core/base/error.h"
#include "core/body/passes/chunking.h"
#include "kernels/onednn/matmul.h"
#include "tests/core/body/chunked_bodies.h"
#include "tests/core/body/memory/measured_memory.h"

namespace llmtrain::body::test {
namespace {

// The kernels that run in one pass over memory are of fp32.
constexpr ElementBytes fp32{4, 4};

void check_planned(const Body& body, const std::vector<at::Tensor>& fields) {
  const PassMemory planned = pass_memory(body, Keeping::all, fp32);
  CHECK(planned.peak == least_height(planned.buffers, 1));
  const std::int64_t measured = measured_peak(body, fields);
  // A plan counts oneDNN's products, which write in place; sanitizer builds use LibTorch's, which copy.
  if (kernels::has_onednn()) CHECK(measured <= planned.peak);
  // Not by counting what is not there. In small pieces what is counted as a copy, and is none, weighs more.
  const bool is_whole = std::ranges::none_of(
      body.steps, [](const Step& step) { return std::holds_alternative<Chunked>(step.primitive); });
  CHECK(static_cast<double>(measured) > (is_whole ? 0.9 : 0.5) * static_cast<double>(planned.peak));
}

void check_limits(const Body& body, std::int64_t most) {
  const std::int64_t whole = pass_memory(body, Keeping::all, fp32).peak;
  const std::int64_t bound = pass_memory(with_least_memory(body, most), Keeping::all, fp32).peak;
  REQUIRE(2 * bound < whole);
  std::int64_t pieces = 1;
  for (int i = 0; i <= 10; ++i) {
    const std::int64_t limit = whole - (whole - bound) * i / 10;
    INFO("limit " << limit << " of " << whole << ", bound " << bound);
    const ChunkedWithin chosen = chunked_within(body, limit, fp32);
    CHECK(chosen.peak <= limit);
    CHECK(chosen.pieces >= pieces);
    pieces = chosen.pieces;
    if (pieces > 1) CHECK(pass_memory(with_least_memory(body, pieces - 1), Keeping::all, fp32).peak > limit);
    check_planned(chosen.body, fields_of(body));
  }
  try {
    chunked_within(body, bound - 1, fp32);
    FAIL("there is no less");
  } catch (const Error& error) {
    const std::string message = error.what();
    CHECK(error.code() == ExitCode::bad_recipe);
    CHECK(message.starts_with("chunks: " + std::to_string(bound - 1) + " bytes are less than the least of any number " +
                              "of pieces, " + std::to_string(bound) + ", which "));
  }
}

}  // namespace

TEST_CASE("a network's pieces keep to ten limits") { check_limits(feed_forward_body(48, 8, 96), 96); }
TEST_CASE("a head's pieces keep to ten limits") { check_limits(head_body(48, 4, 200), 200); }
TEST_CASE("attention's pieces keep to ten limits") { check_limits(query_body(64, 40, 2, 4), 64); }

TEST_CASE("a body that nothing can cut is refused with its step") {
  const Body body = query_body(1, 7, 1, 3);
  CHECK_THROWS_WITH(chunked_within(body, 8, fp32),
                    Catch::Contains("it needs all of s at once") || Catch::Contains("product of"));
}

}  // namespace llmtrain::body::test
