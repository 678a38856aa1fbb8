// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include "tests/core/body/body_cases.h"

namespace llmtrain::body::test {
namespace {

using Tensors = std::vector<at::Tensor>;

at::Tensor places_of(const at::Tensor& x, std::int64_t count) {
  return std::get<1>(at::sort(x.detach(), true, -1, false)).narrow(-1, 0, count);
}

// The three smallest elements of each row, by which rows of a table are weighted.
BodyCase nearest_case() {
  const auto make = [] {
    BodyWriter w;
    const AxisId b = w.axis("b", 4), s = w.axis("s", 7), k = w.axis("k", 3), h = w.axis("h", 5);
    const TensorId x = w.input("x", {b, s}), table = w.parameter("table", {s, h});
    const TensorId places = w.smallest(x, k);
    return finished(w, w.product(w.take(x, places), w.gather(table, places), {b, h}));
  };
  return {"nearest", make, [](const Tensors& t) {
            const at::Tensor places = places_of(t[0], 3);
            return at::einsum("bk,bkh->bh", {t[0].gather(1, places), at::embedding(t[1], places)});
          }};
}

// The smallest of elements that a step makes, in rows along two axes.
BodyCase taken_case() {
  const auto make = [] {
    BodyWriter w;
    const AxisId b = w.axis("b", 2), n = w.axis("n", 3), s = w.axis("s", 6), k = w.axis("k", 2);
    const TensorId x = w.elementwise(ElementwiseKind::silu, {w.input("x", {b, n, s})});
    return finished(w, w.elementwise(ElementwiseKind::exp, {w.take(x, w.smallest(x, k))}));
  };
  return {"taken", make, [](const Tensors& t) {
            const at::Tensor x = at::silu(t[0]);
            return x.gather(2, places_of(x, 2)).exp();
          }};
}

at::Tensor factored(const at::Tensor& x) {
  return at::linalg_cholesky(at::matmul(x, x.mT()) + 0.5 * at::eye(x.size(-2), at::kDouble));
}

TensorId write_factored(BodyWriter& w, TensorId x, const std::vector<AxisId>& axes) {
  const TensorId other = w.slice(x, axes[axes.size() - 2], axes.back());
  return w.cholesky(w.product(x, other, axes), 0.5);
}

BodyCase batched_solve_case() {
  const auto make = [] {
    BodyWriter w;
    const AxisId b = w.axis("b", 2), m = w.axis("m", 3), other = w.axis("other", 3), d = w.axis("d", 5),
                 c = w.axis("c", 4);
    const TensorId x = w.input("x", {b, m, d}), right = w.input("right", {b, m, c});
    return finished(w, w.triangular_solve(write_factored(w, x, {b, m, other}), right));
  };
  return {"solves of several triangles", make,
          [](const Tensors& t) { return at::linalg_solve_triangular(factored(t[0]), t[1], false); }};
}

// One triangle for columns that have two axes.
BodyCase solve_case() {
  const auto make = [] {
    BodyWriter w;
    const AxisId m = w.axis("m", 3), other = w.axis("other", 3), d = w.axis("d", 5), t = w.axis("t", 4),
                 u = w.axis("u", 2);
    const TensorId x = w.parameter("x", {m, d}), right = w.input("right", {m, t, u});
    return finished(w, w.triangular_solve(write_factored(w, x, {m, other}), right));
  };
  return {"solve", make, [](const Tensors& t) {
            return at::linalg_solve_triangular(factored(t[0]), t[1].flatten(1), false).view({3, 4, 2});
          }};
}

BodyCase determinant_case() {
  const auto make = [] {
    BodyWriter w;
    const AxisId b = w.axis("b", 2), m = w.axis("m", 3), other = w.axis("other", 3), d = w.axis("d", 5);
    const TensorId triangle = write_factored(w, w.input("x", {b, m, d}), {b, m, other});
    return finished(w, w.elementwise(ElementwiseKind::log, {w.diagonal(triangle)}));
  };
  return {"determinant", make, [](const Tensors& t) { return factored(t[0]).diagonal(0, -2, -1).log(); }};
}

}  // namespace

std::vector<BodyCase> point_cases() {
  return {nearest_case(), taken_case(), batched_solve_case(), solve_case(), determinant_case()};
}

}  // namespace llmtrain::body::test
