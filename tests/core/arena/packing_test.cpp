// SPDX-License-Identifier: Apache-2.0
#include "core/arena/packing.h"

#include <rapidcheck.h>

#include <algorithm>
#include <catch2/catch.hpp>
#include <random>
#include <stdexcept>
#include <vector>

#include "core/arena/overlaps.h"
#include "tests/core/arena/packing_check.h"

namespace llmtrain::test {
namespace {

std::vector<Buffer> random_buffers(std::mt19937& random, std::size_t count, std::int64_t bytes, std::int64_t moments) {
  const auto below = [&](std::int64_t end) { return static_cast<std::int64_t>(random() % static_cast<unsigned>(end)); };
  std::vector<Buffer> buffers(count);
  for (Buffer& buffer : buffers) {
    const std::int64_t a = below(moments), b = below(moments);
    buffer = {below(bytes), std::min(a, b), std::max(a, b)};
  }
  return buffers;
}

// Whether the rest of the buffers fits below `height` beside those before it, at any whole offsets at all.
bool fits(const std::vector<Buffer>& buffers, std::vector<std::int64_t>& offsets, std::int64_t height) {
  const std::size_t next = offsets.size();
  if (next == buffers.size()) return true;
  for (std::int64_t offset = 0; offset + buffers[next].bytes <= height; ++offset) {
    bool is_free = true;
    for (std::size_t i = 0; i < next; ++i) {
      const bool are_together = buffers[i].first <= buffers[next].last && buffers[next].first <= buffers[i].last;
      const bool touch = offset < offsets[i] + buffers[i].bytes && offsets[i] < offset + buffers[next].bytes;
      is_free = is_free && !(are_together && touch);
    }
    if (!is_free) continue;
    offsets.push_back(offset);
    if (fits(buffers, offsets, height)) return true;
    offsets.pop_back();
  }
  return false;
}

std::int64_t lowest(const std::vector<Buffer>& buffers) {
  for (std::int64_t height = 0;; ++height)
    if (std::vector<std::int64_t> offsets; fits(buffers, offsets, height)) return height;
}

// A training step of so many layers: each makes tensors that its backward reads, and others that live for a few
// operators; the backward makes more of these.
std::vector<Buffer> transformer_step(int layers) {
  std::mt19937 random(3);
  const auto some = [&](unsigned end) { return static_cast<std::int64_t>(random() % end); };
  std::vector<Buffer> buffers, kept;
  std::int64_t moment = 0;
  for (int operation = 0; operation < 24 * layers; ++operation, ++moment) {
    const std::int64_t bytes = (1 + some(16)) * 65'536 + some(2) * 300;
    if (operation % 3 == 0)
      kept.push_back({bytes, moment, 0});
    else
      buffers.push_back({bytes, moment, moment + 1 + some(3)});
  }
  for (; !kept.empty(); kept.pop_back()) {
    for (int operation = 0; operation < 6; ++operation, ++moment)
      buffers.push_back({(1 + some(16)) * 65'536, moment, moment + 1 + some(3)});
    kept.back().last = moment;
    buffers.push_back(kept.back());
  }
  return buffers;
}

// A training step of a chain of layers that updates each weight as soon as its gradient is there: a forward per layer,
// the loss, and from the last layer back its weight's gradient, its input's gradient, which the first layer needs not,
// and the update. Activations and their gradients have `activation` bytes, gradients of weights `weight`.
std::vector<Buffer> updated_chain(std::int64_t layers, std::int64_t activation, std::int64_t weight) {
  std::vector<Buffer> buffers;
  const auto backward_of = [&](std::int64_t layer) { return layers + 1 + 3 * (layers - 1 - layer); };
  for (std::int64_t layer = 0; layer < layers; ++layer) {
    const std::int64_t gradient = backward_of(layer), derivative = gradient + 1, update = gradient + 2;
    // Its input, from the layer before.
    buffers.push_back({activation, std::max<std::int64_t>(layer - 1, 0), derivative});
    // Its output's gradient, from the loss or the layer behind.
    buffers.push_back({activation, layer + 1 == layers ? layers : backward_of(layer + 1) + 1, derivative});
    buffers.push_back({weight, gradient, update});
  }
  buffers.push_back({activation, layers - 1, layers});  // what the loss reads
  return buffers;
}

}  // namespace

TEST_CASE("no two buffers that are alive together share a byte, and nothing is beyond the top") {
  REQUIRE(rc::check("of any sizes and lives", [] {
    const auto seed = *rc::gen::arbitrary<unsigned>();
    const auto count = *rc::gen::inRange<std::size_t>(0, 300);
    const auto moments = *rc::gen::inRange<std::int64_t>(1, 400);
    const auto alignment = *rc::gen::element<std::int64_t>(1, 64, 512);
    std::mt19937 random(seed);
    const auto buffers = random_buffers(random, count, *rc::gen::element<std::int64_t>(1, 5, 5000), moments);
    const Packing packing = pack(buffers, {.alignment = alignment, .pairs = 100'000});
    RC_ASSERT(fault_of(buffers, packing, alignment).empty());
    RC_ASSERT(packing.height >= least_height(buffers, alignment));
    RC_ASSERT(packing.offsets == pack(buffers, {.alignment = alignment, .pairs = 100'000}).offsets);
  }));
}

TEST_CASE("the check of packings finds what is wrong with one") {
  const std::vector<Buffer> buffers{{512, 0, 3}, {512, 3, 5}, {512, 4, 4}};
  CHECK(fault_of(buffers, {{0, 512, 0}, 1024}, 512) == "");
  CHECK(fault_of(buffers, {{0, 0, 512}, 1024}, 512) == "two buffers share bytes");
  CHECK(fault_of(buffers, {{0, 512, 256}, 1024}, 256) == "two buffers share bytes");
  CHECK(fault_of(buffers, {{0, 512, 8}, 1024}, 512) == "an offset that is not aligned");
  CHECK(fault_of(buffers, {{0, 512, 0}, 1023}, 512) == "a buffer beyond the top");
  CHECK(fault_of(buffers, {{0, 512}, 1024}, 512) == "another number of offsets than of buffers");
}

TEST_CASE("few buffers are packed as low as can be") {
  std::mt19937 random(5);
  for (int round = 0; round < 400; ++round) {
    const auto buffers = random_buffers(random, 2 + static_cast<std::size_t>(round) % 6, 6, 7);
    const Packing packing = pack(buffers, {.alignment = 1, .pairs = 20'000});
    CHECK(packing.height == lowest(buffers));
  }
}

TEST_CASE("the least height is the largest sum of rounded sizes at a moment, the last of a life included") {
  CHECK(least_height(std::vector<Buffer>{}) == 0);
  CHECK(least_height(std::vector<Buffer>{{1, 5, 5}}) == 512);
  CHECK(least_height(std::vector<Buffer>{{512, 0, 1}, {513, 1, 2}}) == 512 + 1024);
  CHECK(least_height(std::vector<Buffer>{{512, 0, 1}, {513, 2, 3}}) == 1024);
  CHECK(least_height(std::vector<Buffer>{{3, 0, 9}, {4, 1, 2}, {5, 3, 4}}, 1) == 8);
}

TEST_CASE("overlaps are those of all pairs") {
  std::mt19937 random(6);
  for (const std::size_t count : {0, 1, 63, 64, 65, 500}) {
    const auto buffers = random_buffers(random, count, 9, 150);
    const Overlaps overlaps(buffers);
    for (std::size_t i = 0; i < count; ++i) {
      std::vector<std::size_t> seen, expected;
      overlaps.visit(i, [&](std::size_t other) { seen.push_back(other); });
      std::ranges::sort(seen);
      for (std::size_t j = 0; j < count; ++j)
        if (j != i && buffers[i].first <= buffers[j].last && buffers[j].first <= buffers[i].last) expected.push_back(j);
      REQUIRE(seen == expected);
    }
  }
}

TEST_CASE("steps of transformers are packed within a twentieth of what is alive at once") {
  for (const int layers : {1, 4, 48}) {
    CAPTURE(layers);
    const auto buffers = transformer_step(layers);
    const Packing packing = pack(buffers);
    CHECK(fault_of(buffers, packing, 512) == "");
    CHECK(static_cast<double>(packing.height) <= 1.05 * static_cast<double>(least_height(buffers)));
  }
}

// NNTrainer (arXiv 2206.04688) plans such lives for training on devices, and says up to 1/28 of what others need.
// Without lives a chain takes (2n + 1)a + nw; what is alive at once is n inputs, both gradients of the last layer's,
// and one weight's, so that this gain comes from weights: 1/13.8 for 16 layers with weights of a hundred activations.
TEST_CASE("chains that update each weight at once take one gradient of a weight and two of activations") {
  for (const std::int64_t layers : {3, 8, 16}) {
    CAPTURE(layers);
    for (const std::int64_t weight : {512, 51'200}) {
      const auto buffers = updated_chain(layers, 512, weight);
      std::int64_t sum = 0;
      for (const Buffer& buffer : buffers) sum += buffer.bytes;
      CHECK(sum == (2 * layers + 1) * 512 + layers * weight);
      const Packing packing = pack(buffers);
      CHECK(fault_of(buffers, packing, 512) == "");
      CHECK(packing.height == (layers + 2) * 512 + weight);
    }
  }
}

TEST_CASE("buffers that cannot be are refused") {
  CHECK_THROWS_AS(pack(std::vector<Buffer>{{-1, 0, 0}}), std::invalid_argument);
  CHECK_THROWS_AS(pack(std::vector<Buffer>{{1, 2, 1}}), std::invalid_argument);
}

}  // namespace llmtrain::test
