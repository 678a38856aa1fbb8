// SPDX-License-Identifier: Apache-2.0
#include <ATen/TensorOperators.h>
#include <ATen/ops/equal.h>

#include <catch2/catch.hpp>
#include <limits>

#include "core/body/body_writer.h"
#include "core/graph/operators/body_operators.h"
#include "tests/core/body/body_cases.h"

namespace llmtrain::body::test {
namespace {

std::vector<BodyCase> all_of_them() {
  std::vector<BodyCase> cases = composed_cases();
  const std::vector<BodyCase> primitives = primitive_cases();
  cases.insert(cases.end(), primitives.begin(), primitives.end());
  return cases;
}

using Bytes = std::map<std::string, double>;

Bytes kept_by_run(const BodyCase& of, const Body& body, Keeping keeping) {
  const BodyRun run = run_of(body, keeping);
  const GivenTensors given(body, of.fields(body), at::kFloat);
  const BodyRun::Output output =
      run.forward(given.of(body, BodyTensor::Role::input), given.of(body, BodyTensor::Role::field), given, {});
  Bytes bytes;
  run.visit(output.kept, [&](const std::string& name, const at::Tensor& tensor) {
    bytes[name] = static_cast<double>(tensor.nbytes());
    // Nothing larger is held by it.
    CHECK(tensor.storage().nbytes() == tensor.nbytes());
  });
  std::size_t defined = 0;
  for (const at::Tensor& tensor : output.kept.tensors) defined += tensor.defined() ? 1 : 0;
  for (const std::vector<at::Tensor>& statistics : output.kept.statistics)
    for (const at::Tensor& tensor : statistics) defined += tensor.defined() ? 1 : 0;
  CHECK(defined == bytes.size());
  return bytes;
}

Bytes priced_bytes(const Body& body, Recompute recompute) {
  Bytes bytes;
  for (const Operator& item : priced(body, 4))
    for (const SavedTensor& tensor : item.saved)
      if (tensor.kept_through >= recompute) bytes[tensor.name] = tensor.bytes;
  return bytes;
}

struct Level {
  Keeping keeping;
  Recompute recompute;
};
constexpr Level levels[] = {
    {Keeping::all, Recompute::none}, {Keeping::costly, Recompute::selective}, {Keeping::inputs, Recompute::full}};

}  // namespace

TEST_CASE("a body keeps what its price says, by name and to the byte") {
  for (const BodyCase& of : all_of_them())
    for (const Level& level : levels) {
      INFO(of.name << ", level " << static_cast<int>(level.recompute));
      const Body body = of.make();
      CHECK(kept_by_run(of, body, level.keeping) == priced_bytes(body, level.recompute));
    }
}

TEST_CASE("what a body keeps less it makes again, to the bit") {
  for (const BodyCase& of : all_of_them()) {
    INFO(of.name);
    const Body body = of.make();
    GivenTensors given(body, of.fields(body), at::kFloat);
    const at::Tensor dy = random_tensor(body.shape_of(body.outputs[0]), at::kFloat);
    const Passes all = passes_of(run_of(body), given, {dy});
    for (const Keeping keeping : {Keeping::costly, Keeping::inputs}) {
      const Passes less = passes_of(run_of(body, keeping), given, {dy});
      for (const auto& [id, gradient] : all.gradients) {
        INFO(body.tensors[id].name);
        CHECK(at::equal(less.gradients.at(id), gradient));
      }
    }
  }
}

TEST_CASE("between its passes a body holds no weights") {
  for (const BodyCase& of : all_of_them()) {
    INFO(of.name);
    const Body body = of.make();
    const std::vector<at::Tensor> fields = of.fields(body);
    GivenTensors given(body, fields);
    const at::Tensor dy = random_tensor(body.shape_of(body.outputs[0]));
    const Passes expected = passes_of(run_of(body), given, {dy});
    const BodyRun run = run_of(body);
    BodyRun::Output output = run.forward(given.of(body, BodyTensor::Role::input), fields, given, {});
    for (const TensorId id : body.tensors_of(BodyTensor::Role::parameter)) {
      const at::Tensor gathered_again = given.tensors.at(id).clone();
      given.tensors.at(id).fill_(std::numeric_limits<double>::quiet_NaN());
      given.tensors.at(id) = gathered_again;
    }
    given.gradients.clear();
    const std::vector<at::Tensor> inputs = run.backward({dy}, std::move(output.kept), fields, given, {});
    for (const auto& [id, gradient] : given.gradients) CHECK(at::equal(gradient, expected.gradients.at(id)));
    const std::vector<TensorId> ids = body.tensors_of(BodyTensor::Role::input);
    for (std::size_t i = 0; i < ids.size(); ++i) CHECK(at::equal(inputs[i], expected.gradients.at(ids[i])));
  }
}

TEST_CASE("gradients of a body's inputs have memory of their own") {
  BodyWriter w;
  const AxisId t = w.axis("t", 4);
  const TensorId x = w.input("x", {t}), y = w.input("y", {t}), unread = w.input("unread", {t});
  w.output(w.elementwise(ElementwiseKind::add, {x, y}));
  const Body body = w.take();
  GivenTensors given(body, {});
  const at::Tensor dy = random_tensor({4}), kept = dy.clone();
  Passes passes = passes_of(run_of(body), given, {dy});
  CHECK(passes.gradients.at(unread).abs().max().item<double>() == 0);
  passes.gradients.at(x).zero_();
  CHECK(at::equal(passes.gradients.at(y), kept));
  CHECK(at::equal(dy, kept));
}

TEST_CASE("a network keeps the inputs of its products, its norm and its activation") {
  const Body body = composed_cases()[0].make();
  const double t = 7, h = 4, f = 6;
  CHECK(priced_bytes(body, Recompute::none) == Bytes{{"x", 4 * t * h},
                                                     {"norm_0", 4 * t * h},
                                                     {"norm_0.mean", 4 * t},
                                                     {"norm_0.rstd", 4 * t},
                                                     {"hidden", 4 * t * f},
                                                     {"dropout_4", 4 * t * f}});
}

}  // namespace llmtrain::body::test
