// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/emulated_device.h"

#include <chrono>
#include <thread>
#include <utility>

namespace llmtrain {
namespace {

using Clock = std::chrono::steady_clock;

Clock::duration duration(double seconds) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds));
}

class EmulatedDevice final : public StagePasses {
 public:
  EmulatedDevice(std::unique_ptr<StagePasses> stage, const EmulatedLayer& layer, double layers)
      : stage_(std::move(stage)),
        forward_(duration(layers * layer.forward_seconds)),
        backward_(duration(layers * layer.backward_seconds)) {}

  at::Tensor forward(at::Tensor x, std::int64_t index, const MicroBatch& micro, ForwardMode pass) override {
    // Only training passes are delayed; evaluation runs at the processor's speed.
    const auto end = Clock::now() + (pass == ForwardMode::training ? forward_ : Clock::duration{});
    at::Tensor y = stage_->forward(std::move(x), index, micro, pass);
    std::this_thread::sleep_until(end);
    return y;
  }

  at::Tensor backward(at::Tensor dy, std::int64_t index, const MicroBatch& micro) override {
    const auto end = Clock::now() + backward_;
    at::Tensor dx = stage_->backward(std::move(dy), index, micro);
    std::this_thread::sleep_until(end);
    return dx;
  }

  at::Tensor logits(at::Tensor x, const MicroBatch& micro) override { return stage_->logits(std::move(x), micro); }

 private:
  std::unique_ptr<StagePasses> stage_;
  Clock::duration forward_, backward_;
};

}  // namespace

std::unique_ptr<StagePasses> emulate_device(std::unique_ptr<StagePasses> stage, const EmulatedLayer& layer,
                                            std::int64_t layers) {
  if (layer.forward_seconds == 0 && layer.backward_seconds == 0) return stage;
  return std::make_unique<EmulatedDevice>(std::move(stage), layer, static_cast<double>(layers));
}

}  // namespace llmtrain
