// SPDX-License-Identifier: Apache-2.0
#include "core/body/families/gaussian_process.h"

#include "core/body/parts/pairs.h"
#include "core/body/passes/pairwise_distance.h"

namespace llmtrain::body {
namespace {

using Kind = ElementwiseKind;

struct Covariance {
  TensorId inverse_lengths, variance;
};

TensorId write_scaled(BodyWriter& w, TensorId x, TensorId factors) {
  return w.elementwise(Kind::multiply, {x, factors});
}

TensorId write_covariances(BodyWriter& w, const Covariance& of, TensorId points, TensorId others) {
  const TensorId distances = write_squared_distances(w, points, others);
  return write_scaled(w, w.elementwise(Kind::exp, {w.scale(distances, -0.5)}), of.variance);
}

// A·Aᵀ, A·y and yᵀ·y: the products of the rows of A with y as one more of them, so that one sum over the points makes
// all three.
struct Sums {
  TensorId covariances, targets, squares;
};
Sums write_sums(BodyWriter& w, TensorId rows, TensorId y, AxisId m, AxisId other_m) {
  const AxisId one = w.axes_of(y).front(), other_one = w.axis("other_y", 1);
  const std::int64_t inducing = w.extent_of(m);
  const AxisId all = w.axis("rows", inducing + 1), other = w.axis("other_rows", inducing + 1);
  const TensorId joined = w.join({rows, y}, all);
  const TensorId products = w.named(w.product(joined, w.slice(joined, all, other), {all, other}), "sums");
  const TensorId of_rows = w.slice(products, all, m), of_y = w.slice(products, all, one, inducing);
  return {w.slice(of_rows, other, other_m), w.slice(of_rows, other, one, inducing),
          w.slice(of_y, other, other_one, inducing)};
}

}  // namespace

Body sparse_gaussian_process(const GaussianProcess& model, std::int64_t points) {
  BodyWriter w;
  const AxisId n = w.axis("points", points), m = w.axis("inducing", model.inducing);
  const AxisId other_m = w.axis("other_inducing", model.inducing), d = w.axis("features", model.features);
  const AxisId one = w.axis("y", 1);
  const TensorId x = w.input("x", {n, d}), y = w.field("y", {one, n}), z = w.parameter("inducing", {m, d});
  const TensorId log_inverse_lengths = w.parameter("log_inverse_lengths", {d});
  const TensorId log_variance = w.parameter("log_variance", {}), log_precision = w.parameter("log_precision", {});
  const TensorId lengths = w.elementwise(Kind::exp, {log_inverse_lengths});
  const TensorId variance = w.elementwise(Kind::exp, {log_variance});
  const TensorId precision = w.elementwise(Kind::exp, {log_precision});
  const Covariance covariance{lengths, variance};

  const TensorId inducing = write_scaled(w, z, lengths), others = w.slice(inducing, m, other_m);
  const TensorId among_them = write_covariances(w, covariance, inducing, others);
  const TensorId triangle = w.named(w.cholesky(among_them, model.jitter), "triangle");
  const TensorId crossed = write_covariances(w, covariance, inducing, write_scaled(w, x, lengths));
  const TensorId rows = w.named(w.triangular_solve(triangle, crossed), "rows");
  const Sums sums = write_sums(w, rows, y, m, other_m);

  const TensorId posterior = w.named(w.cholesky(write_scaled(w, sums.covariances, precision), 1), "posterior");
  const TensorId c = w.triangular_solve(posterior, write_scaled(w, sums.targets, precision));
  const auto total = [&](TensorId of) { return w.reduce(ReduceKind::sum, of, {}); };
  const auto count = static_cast<double>(points);
  const TensorId log_determinant = total(w.elementwise(Kind::log, {w.diagonal(posterior)}));
  const TensorId fit = total(w.elementwise(Kind::multiply, {c, c}));
  const TensorId explained = total(w.diagonal(sums.covariances));
  const TensorId squares =
      w.elementwise(Kind::add, {total(sums.squares), w.scale(variance, count), w.scale(explained, -1)});
  const TensorId loss =
      w.elementwise(Kind::add, {log_determinant, w.scale(log_precision, -count / 2), w.scale(fit, -0.5),
                                w.scale(w.elementwise(Kind::multiply, {squares, precision}), 0.5)});
  w.output(w.named(w.scale(loss, 1 / count), "loss"));
  return with_products_of_pairs(w.take());
}

}  // namespace llmtrain::body
