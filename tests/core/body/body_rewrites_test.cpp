// SPDX-License-Identifier: Apache-2.0
// Passes that write what a body computes otherwise: squared distances as products, and orders of products.
#include <catch2/catch.hpp>
#include <limits>
#include <random>

#include "core/body/body_writer.h"
#include "core/body/pass_memory.h"
#include "core/body/passes/chunking.h"
#include "core/body/passes/pairwise_distance.h"
#include "core/body/passes/product_order.h"
#include "tests/core/body/body_cases.h"
#include "tests/core/body/chunked_bodies.h"

namespace llmtrain::body::test {
namespace {

constexpr ElementBytes float64{8, 8};

// To 1e-12 the same values and gradients.
void check_same(const Body& body, const Body& other) {
  const GivenTensors given(body, fields_of(body));
  const std::vector<at::Tensor> dy{random_tensor(body.shape_of(body.outputs[0]))};
  const NamedPasses expected = passes_of_cut(body, body, given, dy), got = passes_of_cut(body, other, given, dy);
  CHECK(distance(got.values[0], expected.values[0]) <= 1e-12);
  REQUIRE(got.gradients.size() == expected.gradients.size());
  for (const auto& [name, gradient] : expected.gradients) {
    INFO("gradient of " << name);
    CHECK(distance(got.gradients.at(name), gradient) <= 1e-12);
  }
}

// What else reads the differences, if anything.
enum class OtherReader { none, differences, negative };

Body distances_body(std::int64_t points, std::int64_t queries, std::int64_t features, double factor = -1,
                    OtherReader other = OtherReader::none) {
  BodyWriter w;
  const AxisId n = w.axis("n", points), m = w.axis("m", queries), d = w.axis("d", features);
  const TensorId x = w.input("x", {n, d}), y = w.parameter("y", {m, d});
  const TensorId negative = w.scale(y, factor);
  const TensorId difference = w.elementwise(ElementwiseKind::add, {w.repeat(x, m), negative});
  const TensorId squares = w.elementwise(ElementwiseKind::multiply, {difference, difference});
  const TensorId distances = w.named(w.reduce(ReduceKind::sum, squares, {m, n}), "distances");
  if (other == OtherReader::differences) w.output(w.scale(difference, 2));
  if (other == OtherReader::negative) w.output(w.scale(negative, 2));
  return finished(w, distances);
}

double flops_of(const Body& body) {
  double flops = 0;
  for (const Step& step : body.steps) flops += work(body, step).forward_flops;
  return flops;
}

// A chain of matrices of these extents, multiplied from the left; each is a parameter.
Body chain_body(const std::vector<std::int64_t>& extents) {
  BodyWriter w;
  std::vector<AxisId> axes;
  for (std::size_t i = 0; i < extents.size(); ++i) axes.push_back(w.axis("a" + std::to_string(i), extents[i]));
  TensorId made = w.input("x", {axes[0], axes[1]});
  for (std::size_t i = 1; i + 1 < extents.size(); ++i) {
    const TensorId next = w.parameter("p" + std::to_string(i), {axes[i], axes[i + 1]});
    made = w.product(made, next, {axes[0], axes[i + 1]});
  }
  return finished(w, made);
}

struct ChainCost {
  double flops = 0, elements = 0;
};

// Every way to multiply some of the matrices of a chain, a bit each, in any order and with outer products, each tried.
// Matrix i has the axes i and i + 1.
std::vector<ChainCost> all_orders(const std::vector<std::int64_t>& extents, unsigned matrices) {
  const unsigned all = (1U << (extents.size() - 1)) - 1;
  const auto has = [](unsigned some, std::size_t axis) {
    return (some >> axis & 1U) != 0 || (axis > 0 && (some >> (axis - 1) & 1U) != 0);
  };
  const auto is_in_product = [&](unsigned some, std::size_t axis) {
    const bool is_of_result = axis == 0 || axis + 1 == extents.size();
    return has(some, axis) && (is_of_result || has(all & ~some, axis));
  };
  if ((matrices & (matrices - 1)) == 0) return {{}};
  double made = 1;
  for (std::size_t axis = 0; axis < extents.size(); ++axis)
    if (is_in_product(matrices, axis)) made *= static_cast<double>(extents[axis]);
  std::vector<ChainCost> orders;
  for (unsigned factor = 1; factor < matrices; ++factor) {
    if ((factor & ~matrices) != 0 || factor < (matrices & ~factor)) continue;
    double products = 2;
    for (std::size_t axis = 0; axis < extents.size(); ++axis)
      if (is_in_product(factor, axis) || is_in_product(matrices & ~factor, axis))
        products *= static_cast<double>(extents[axis]);
    for (const ChainCost& left : all_orders(extents, factor))
      for (const ChainCost& right : all_orders(extents, matrices & ~factor))
        orders.push_back(
            {left.flops + right.flops + products, left.elements + right.elements + (matrices == all ? 0 : made)});
  }
  return orders;
}

double elements_made(const Body& body) {
  double elements = 0;
  for (const Step& step : body.steps)
    if (step.output != body.outputs[0]) elements += elements_of(body, step.output);
  return elements;
}

}  // namespace

TEST_CASE("squared distances of pairs become products, which make nothing of all features") {
  const Body body = distances_body(23, 17, 19), products = with_products_of_pairs(body);
  check_same(body, products);
  CHECK(products.steps.size() == 7);
  CHECK(products.tensors[products.outputs[0]].name == "distances");
  for (const BodyTensor& tensor : products.tensors) CHECK(tensor.axes.size() <= 2);
  CHECK(3 * forward_memory(products, float64) < forward_memory(body, float64));
  // And the pass again finds none.
  CHECK(with_products_of_pairs(products) == products);
}

TEST_CASE("squared distances stay where more is read of them, or where they are none") {
  const Body read = distances_body(5, 4, 3, -1, OtherReader::differences), sums = distances_body(5, 4, 3, 1);
  CHECK(with_products_of_pairs(read) == read);
  CHECK(with_products_of_pairs(sums) == sums);
  const Body negative = distances_body(5, 4, 3, -1, OtherReader::negative);
  CHECK(with_products_of_pairs(negative).steps.size() == negative.steps.size() + 3);
}

TEST_CASE("distances as products are cut along points, queries and features") {
  const Body body = with_products_of_pairs(distances_body(23, 17, 19));
  const Body cut = with_least_memory(body, 4);
  check_same(body, cut);
  CHECK(pass_memory(cut, Keeping::all, float64).peak < pass_memory(body, Keeping::all, float64).peak);
}

TEST_CASE("a chain of matrices is multiplied in the order of fewest operations, of all that there are") {
  std::mt19937 draw(7);
  std::uniform_int_distribution<std::int64_t> extent(1, 12);
  int changed = 0;
  for (int i = 0; i < 60; ++i) {
    std::vector<std::int64_t> extents(static_cast<std::size_t>(4 + i % 4));
    for (std::int64_t& each : extents) each = extent(draw);
    const Body body = chain_body(extents);
    double flops = std::numeric_limits<double>::infinity(), elements = flops;
    for (const ChainCost& cost : all_orders(extents, (1U << (extents.size() - 1)) - 1)) {
      flops = std::min(flops, cost.flops);
      elements = std::min(elements, cost.elements);
    }
    const Body fewest = with_least_products(body, ProductCost::flops);
    const Body smallest = with_least_products(body, ProductCost::elements);
    CHECK(flops_of(fewest) == flops);
    CHECK(elements_made(smallest) == elements);
    if (flops_of(fewest) == flops_of(body)) CHECK(fewest == body);
    changed += fewest == body ? 0 : 1;
    check_same(body, fewest);
    check_same(body, smallest);
  }
  CHECK(changed > 20);
}

TEST_CASE("a product of matrices by a vector is one of vectors") {
  const Body body = chain_body({100, 100, 100, 1}), fewest = with_least_products(body, ProductCost::flops);
  CHECK(flops_of(body) == 2 * 100 * 100 * 100 + 2 * 100 * 100);
  CHECK(flops_of(fewest) == 2 * 2 * 100 * 100);
  CHECK(elements_made(fewest) == 100);
}

TEST_CASE("products whose results others read, too, keep their order") {
  BodyWriter w;
  const AxisId a = w.axis("a", 9), b = w.axis("b", 9), c = w.axis("c", 9), d = w.axis("d", 1);
  const TensorId first = w.parameter("first", {a, b}), second = w.parameter("second", {b, c});
  const TensorId vector = w.input("vector", {c, d});
  const TensorId both = w.product(first, second, {a, c});
  w.output(w.product(both, vector, {a, d}));
  w.output(w.scale(both, 2));
  const Body body = w.take();
  CHECK(with_least_products(body, ProductCost::flops) == body);
}

}  // namespace llmtrain::body::test
