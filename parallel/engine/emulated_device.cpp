// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/emulated_device.h"

#include <chrono>
#include <thread>
#include <utility>
#include <vector>

#include "parallel/layout/emulated_machine.h"

namespace llmtrain {
namespace {

class EmulatedDevice final : public StagePasses {
 public:
  EmulatedDevice(std::unique_ptr<StagePasses> stage, const EmulatedLayer& layer, std::int64_t layers)
      : stage_(std::move(stage)),
        forward_(duration(layers, layer.forward_seconds)),
        backward_(duration(layers, layer.backward_seconds)) {}

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

  static Clock::duration duration(std::int64_t layers, double seconds) {
    return std::chrono::duration_cast<Clock::duration>(
        std::chrono::duration<double>(static_cast<double>(layers) * seconds));
  }

  std::unique_ptr<StagePasses> stage_;
  Clock::duration forward_, backward_;
};

}  // namespace

std::unique_ptr<StagePasses> on_emulated_device(std::unique_ptr<StagePasses> stage, const Recipe& recipe,
                                                std::int64_t layers) {
  const EmulatedLayer layer = emulated_layer(recipe);
  if (layer.forward_seconds == 0 && layer.backward_seconds == 0) return stage;
  return std::make_unique<EmulatedDevice>(std::move(stage), layer, layers);
}

}  // namespace llmtrain
