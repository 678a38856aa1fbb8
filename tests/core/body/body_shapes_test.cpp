// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "core/base/error.h"
#include "core/body/body_writer.h"
#include "tests/core/body/body_under_test.h"

namespace llmtrain::body::test {
namespace {

using Catch::Matchers::Contains;

struct Axes {
  BodyWriter w;
  AxisId t = w.axis("t", 4), h = w.axis("h", 6), f = w.axis("f", 3);
  TensorId x = w.input("x", {t, h}), weight = w.parameter("weight", {f, h});
};

#define CHECK_REFUSED(call, words) CHECK_THROWS_WITH(call, Contains(words))

}  // namespace

TEST_CASE("a body says which step cannot be, with its tensors, and why") {
  Axes a;
  CHECK_REFUSED(a.w.product(a.x, a.weight, {a.t, a.f, a.w.axis("z", 2)}),
                "product of x [t 4, h 6] and weight [f 3, h 6] to [t 4, f 3, z 2]: no operand has the result's axis z");
  CHECK_REFUSED(Axes().w.product(0, 1, {0}), "the axis f is summed over, but only one operand has it");
  CHECK_REFUSED(Axes().w.elementwise(ElementwiseKind::add, {0, 1}), "the first operand lacks the axis f");
  CHECK_REFUSED(Axes().w.elementwise(ElementwiseKind::add, {0}), "a sum takes two tensors or more");
  CHECK_REFUSED(Axes().w.elementwise(ElementwiseKind::gelu, {0, 0}), "it takes 1 tensors, not 2");
  CHECK_REFUSED(Axes().w.elementwise(ElementwiseKind::swiglu, {0, 1}), "both operands have the same axes");
  CHECK_REFUSED(Axes().w.softmax(0, 2), "the operand lacks the axis f");
  CHECK_REFUSED(Axes().w.norm({}, 0, 1), "weight and bias are of the axis h");
  CHECK_REFUSED(Axes().w.reduce(ReduceKind::sum, 0, {1, 0}), "some of the operand's axes, in its order");
  CHECK_REFUSED(Axes().w.permute(0, {0}), "the result has the operand's axes");
  CHECK_REFUSED(Axes().w.merge(0, {1, 0}, 2), "side by side");
  CHECK_REFUSED(Axes().w.merge(0, {0, 1}, 2), "the parts have 24 elements, f has 3");
  CHECK_REFUSED(Axes().w.slice(0, 1, 2, 4), "ends behind its axis");
  CHECK_REFUSED(Axes().w.join({0, 0}, 2), "the result lacks the axis along which it joins");
  CHECK_REFUSED(Axes().w.dropout(1, 0), "at least 0 and below 1");
}

TEST_CASE("a body says which image cannot be convolved or pooled, and why") {
  struct Image {
    BodyWriter w;
    AxisId b = w.axis("b", 2), c = w.axis("c", 3), y = w.axis("y", 5), x = w.axis("x", 6), o = w.axis("o", 4);
    TensorId image = w.input("image", {b, c, y, x});

    TensorId convolve(const Convolution& convolution, std::int64_t kernel) {
      const AxisId ky = w.axis("ky", kernel), kx = w.axis("kx", kernel);
      return w.convolution(convolution, image, w.parameter("kernel", {o, c, ky, kx}));
    }
  };
  Image good;
  const TensorId made = good.convolve({.stride = {2, 2}, .padding = {1, 1}}, 3);
  good.w.output(made);
  CHECK(good.w.take().shape_of(made) == std::vector<std::int64_t>{2, 4, 3, 3});
  CHECK_REFUSED(Image().convolve({}, 6), "the kernel is longer than what it is applied to");
  CHECK_REFUSED(Image().convolve({.stride = {0, 1}}, 1), "strides and dilations are 1 at least");
  CHECK_REFUSED(Image().convolve({.stride = {2}}, 3), "a stride, a padding and a dilation");
  CHECK_REFUSED(Image().convolve({.groups = 2}, 3), "groups divide the channels");
  CHECK_REFUSED(Image().w.convolution({}, 0, 0), "has the axis b twice");
  CHECK_REFUSED(Image().w.pool({PoolKind::max, {7, 2}}, 0), "the window is longer than the image");
  CHECK_REFUSED(Image().w.pool({PoolKind::max, {3, 3}, {1, 1}, {2, 0}}, 0), "padding is half of a window at most");
  CHECK_REFUSED(Image().w.pool({PoolKind::average, {3, 3}, {1, 1}, {1, 1}}, 0), "means have no padding");
}

TEST_CASE("names and axes are taken once") {
  CHECK_REFUSED(Axes().w.axis("t", 4), "two axes are called t");
  CHECK_REFUSED(Axes().w.axis("u", -1), "the axis u cannot have -1 elements");
  CHECK_REFUSED(Axes().w.input("weight", {0}), "two tensors are called weight");
  CHECK_REFUSED(Axes().w.input("y", {0, 0}), "y has the axis t twice");
  CHECK_REFUSED(Axes().w.take(), "it has an output at least");
}

TEST_CASE("a body finds its tensors and axes by name") {
  Axes a;
  a.w.output(a.w.named(a.w.product(a.x, a.weight, {a.f, a.t}), "y"));
  const Body body = a.w.take();
  CHECK(body.shape_of(body.tensor_named("y")) == std::vector<std::int64_t>{3, 4});
  CHECK(body.axis_named("f") == a.f);
  CHECK_REFUSED(body.tensor_named("z"), "no tensor is called z; there are x, weight, y");
}

TEST_CASE("a body takes other extents where its steps can have them") {
  Axes a;
  const AxisId part = a.w.axis("part", 2);
  a.w.output(a.w.slice(a.x, a.t, part, 1));
  const Body body = a.w.take();
  CHECK(with_extents(body, {{a.h, 9}}).shape_of(body.outputs[0]) == std::vector<std::int64_t>{2, 9});
  CHECK_REFUSED(with_extents(body, {{a.t, 2}}), "ends behind its axis");
}

TEST_CASE("a run says which tensor has another shape than its body") {
  Axes a;
  a.w.output(a.w.product(a.x, a.weight, {a.t, a.f}));
  const Body body = a.w.take();
  GivenTensors given(body, {});
  given.tensors[0] = random_tensor({4, 5});
  CHECK_REFUSED(values_of(body, given), "x is [4, 6], not [4, 5]");
  CHECK_REFUSED(run_of(body).forward({}, {}, given, {}), "it reads 1 tensors where it is given 0");
}

}  // namespace llmtrain::body::test
