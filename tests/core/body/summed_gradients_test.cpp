// SPDX-License-Identifier: Apache-2.0
// LibTorch is built with NDEBUG: without it RecordFunction has a member that LibTorch's calls do not set, and refuses
// to show an operator's inputs.
#if defined(NDEBUG)
#include <ATen/record_function.h>

#include <catch2/catch.hpp>
#include <string_view>

#include "core/graph/operators/body_operators.h"
#include "tests/core/body/body_cases.h"

namespace llmtrain::body::test {
namespace {

// Elements of all sums that LibTorch makes on this thread while it lives.
class SumCounter {
 public:
  SumCounter()
      : handle_(at::addThreadLocalCallback(at::RecordFunctionCallback(&SumCounter::on_operator)
                                               .needsInputs(true)
                                               .scopes({at::RecordScope::FUNCTION}))) {
    elements_ = 0;
  }
  ~SumCounter() { at::removeCallback(handle_); }
  SumCounter(const SumCounter&) = delete;
  SumCounter& operator=(const SumCounter&) = delete;

  static double elements() { return elements_; }

 private:
  static std::unique_ptr<at::ObserverContext> on_operator(const at::RecordFunction& function) {
    if (std::string_view(function.name()) == "aten::add" && function.inputs()[0].isTensor())
      elements_ += static_cast<double>(function.inputs()[0].toTensor().numel());
    return nullptr;
  }

  static inline double elements_ = 0;
  at::CallbackHandle handle_;
};

// Gradients of parameters are added up by whoever holds these.
struct FrozenTensors : GivenTensors {
  using GivenTensors::GivenTensors;
  void add_gradient(TensorId /*parameter*/, const at::Tensor& /*gradient*/) override {}
};

double run_sums(const BodyCase& of, const Body& body) {
  const BodyRun run = run_of(body);
  FrozenTensors given(body, of.fields(body), at::kFloat);
  const std::vector<at::Tensor> fields = given.of(body, BodyTensor::Role::field);
  BodyRun::Output output = run.forward(given.of(body, BodyTensor::Role::input), fields, given, {});
  std::vector<at::Tensor> dy;
  for (const TensorId id : body.outputs) dy.push_back(random_tensor(body.shape_of(id), at::kFloat));
  const SumCounter counter;
  run.backward(dy, std::move(output.kept), fields, given, {});
  return SumCounter::elements();
}

double priced_sums(const Body& body) {
  double moved = 0;
  for (const Operator& item : priced(body, 4)) moved += item.summed_gradients;
  return moved / 3;  // a sum reads two and writes one
}

}  // namespace

TEST_CASE("the backward of a body adds up as many gradients as its price says") {
  double all = 0;
  for (const BodyCase& of : composed_cases()) {
    INFO(of.name);
    const Body body = of.make();
    CHECK(run_sums(of, body) == priced_sums(body));
    all += priced_sums(body);
  }
  CHECK(all > 0);
}

}  // namespace llmtrain::body::test
#endif
