// SPDX-License-Identifier: Apache-2.0

#include <catch2/catch.hpp>

#include "core/body/body_writer.h"
#include "tests/core/body/body_under_test.h"

namespace llmtrain::body::test {
namespace {

using kernels::PositionRun;

// Attention within a sequence, or to the keys of another axis.
Body attention_between(std::int64_t sequences, std::int64_t queries, std::int64_t keys, bool is_cross) {
  BodyWriter w;
  const AxisId b = w.axis("b", sequences), s = w.axis("s", queries), n = w.axis("n", 2), d = w.axis("d", 4);
  const AxisId m = is_cross ? w.axis("m", keys) : s;
  const TensorId query = w.input("query", {b, s, n, d}), key = w.input("key", {b, m, n, d});
  w.output(w.attention({}, query, key, w.input("value", {b, m, n, d})));
  return w.take();
}

// The rows of one document in [sequences, tokens, …].
at::Tensor rows_of(const at::Tensor& x, const PositionRun& run) {
  return x.reshape({1, -1, x.size(2), x.size(3)}).narrow(1, run.begin, run.length);
}

struct Runs {
  std::vector<PositionRun> queries, keys;
};

void check_documents(const Body& body, bool is_cross, const Runs& runs) {
  GivenTensors given(body, {});
  const at::Tensor dy = random_tensor(body.shape_of(body.outputs[0]));
  BodyPass pass;
  pass.documents.push_back({body.axis_named("s"), {.runs = runs.queries}});
  if (is_cross) pass.documents.push_back({body.axis_named("m"), {.runs = runs.keys}});
  const Passes got = passes_of(run_of(body), given, {dy}, pass);
  for (std::size_t i = 0; i < runs.queries.size(); ++i) {
    INFO("document " << i);
    const PositionRun &of_queries = runs.queries[i], &of_keys = runs.keys[i];
    const Body one = attention_between(1, of_queries.length, of_keys.length, is_cross);
    GivenTensors apart(one, {});
    apart.tensors[0] = rows_of(given.tensors[0], of_queries);
    for (const TensorId id : {1, 2}) apart.tensors[id] = rows_of(given.tensors[id], of_keys);
    const Passes expected = passes_of(run_of(one), apart, {rows_of(dy, of_queries)});
    CHECK(distance(rows_of(got.values[0], of_queries), expected.values[0]) <= 1e-14);
    CHECK(distance(rows_of(got.gradients.at(0), of_queries), expected.gradients.at(0)) <= 1e-14);
    for (const TensorId id : {1, 2})
      CHECK(distance(rows_of(got.gradients.at(id), of_keys), expected.gradients.at(id)) <= 1e-14);
  }
}

}  // namespace

TEST_CASE("attention keeps to the documents along an axis, of which padding is one") {
  const std::vector<PositionRun> own{{0, 3}, {3, 2}, {5, 5}};
  check_documents(attention_between(2, 5, 5, false), false, {own, own});
  check_documents(attention_between(2, 5, 7, true), true, {own, {{0, 4}, {4, 3}, {7, 7}}});
}

}  // namespace llmtrain::body::test
