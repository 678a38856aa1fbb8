// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/emulated_device.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

namespace llmtrain {
namespace {

class EmulatedDevice final : public StagePasses {
 public:
  EmulatedDevice(std::unique_ptr<StagePasses> stage, const EmulatedPasses& passes)
      : stage_(std::move(stage)),
        forward_(duration(passes.forward_seconds)),
        backward_(duration(passes.backward_seconds)) {}

  Output forward(Tensors incoming, std::int64_t index, const Batch& batch, const PassContext& pass) override {
    // Only training passes are delayed; evaluation runs at the processor's speed.
    const auto end = Clock::now() + (pass.trains() ? forward_ : Clock::duration{});
    Output output = stage_->forward(std::move(incoming), index, batch, pass);
    std::this_thread::sleep_until(end);
    return output;
  }

  Tensors backward(Tensors gradients, std::int64_t index, const Batch& batch, const PassContext& pass) override {
    const auto end = Clock::now() + backward_;
    Tensors of_incoming = stage_->backward(std::move(gradients), index, batch, pass);
    std::this_thread::sleep_until(end);
    return of_incoming;
  }

  at::Tensor take_routing() override { return stage_->take_routing(); }
  std::vector<at::Tensor> take_chosen() override { return stage_->take_chosen(); }

 private:
  using Clock = std::chrono::steady_clock;

  static Clock::duration duration(double seconds) {
    return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
  }

  std::unique_ptr<StagePasses> stage_;
  Clock::duration forward_, backward_;
};

}  // namespace

std::unique_ptr<StagePasses> on_emulated_device(std::unique_ptr<StagePasses> stage, const EmulatedPasses& passes) {
  if (passes.forward_seconds == 0 && passes.backward_seconds == 0) return stage;
  return std::make_unique<EmulatedDevice>(std::move(stage), passes);
}

}  // namespace llmtrain
