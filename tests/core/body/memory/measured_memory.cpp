// SPDX-License-Identifier: Apache-2.0
#include "tests/core/body/memory/measured_memory.h"

#include <ATen/ops/empty_like.h>
#include <ATen/ops/zeros_like.h>
#include <c10/core/Allocator.h>
#include <c10/util/ThreadLocalDebugInfo.h>

#include <algorithm>
#include <memory>
#include <utility>

namespace llmtrain::body::test {
namespace {

class CountedMemory final : public c10::MemoryReportingInfoBase {
 public:
  void reportMemoryUsage(void*, std::int64_t size, std::size_t, std::size_t, c10::Device) override {
    now_ += size;
    peak = std::max(peak, now_);
  }
  bool memoryProfilingEnabled() const override { return true; }

  std::int64_t peak = 0;

 private:
  std::int64_t now_ = 0;
};

// Whose sums of gradients are there before.
class SummedGradients final : public BodyParameters {
 public:
  explicit SummedGradients(const GivenTensors& given) : given_(given) {
    for (const auto& [id, tensor] : given.tensors) sums_[id] = at::zeros_like(tensor);
  }
  at::Tensor weight(TensorId parameter) const override { return given_.weight(parameter); }
  void add_gradient(TensorId parameter, const at::Tensor& gradient) override { sums_.at(parameter).add_(gradient); }

 private:
  const GivenTensors& given_;
  std::map<TensorId, at::Tensor> sums_;
};

}  // namespace

MeasuredPasses measured_passes(const Body& body, const GivenTensors& given) {
  SummedGradients parameters(given);
  const std::vector<at::Tensor> inputs = given.of(body, BodyTensor::Role::input),
                                fields = given.of(body, BodyTensor::Role::field);
  const at::Tensor dy = random_tensor(body.shape_of(body.outputs[0]), at::kFloat);
  const BodyRun run = run_of(body);
  const auto memory = std::make_shared<CountedMemory>();
  // Made before anything is counted: a plan has outputs for as long as the forward runs.
  at::Tensor value = at::empty_like(dy);
  {
    const c10::DebugInfoGuard guard(c10::DebugInfoKind::PROFILER_STATE, memory);
    BodyRun::Output output = run.forward(inputs, fields, parameters, {});
    value.copy_(output.values[0]);
    output.values.clear();
    run.backward({dy}, std::move(output.kept), fields, parameters, {});
  }
  return {memory->peak, std::move(value)};
}

std::int64_t measured_peak(const Body& body, const std::vector<at::Tensor>& fields) {
  return measured_passes(body, GivenTensors(body, fields, at::kFloat)).peak;
}

}  // namespace llmtrain::body::test
