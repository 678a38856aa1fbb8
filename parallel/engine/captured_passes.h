// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "core/model/stage.h"
#include "core/parameters/parameter_store.h"
#include "parallel/device/device_runtime.h"
#include "parallel/schedule/schedule.h"

namespace llmtrain {

// By micro-batch, which of a stage's sets of activations its forward fills: the lowest that no micro-batch in flight
// has. As many as there are micro-batches in flight.
std::vector<std::size_t> activation_slots(const RankSchedule& schedule, std::int32_t stage);

// What the passes of a stage depend on besides what they are given.
struct CaptureSetting {
  at::Device device;
  std::vector<std::size_t> slots;                        // activation_slots()
  std::function<std::vector<ParameterStore*>()> stores;  // of the rank; they outlive the passes
  bool has_backward = true;                              // whether a backward follows each forward
};

// A stage whose passes of training are captured work (CUDA graphs): the host launches one operation instead of all of a
// pass. Results have the same bits. The first step runs as it is, to let libraries set themselves up; the second
// captures passes, and launches at once what it has captured.
//
// Captured work reads and writes the same memory at every launch. So each slot has fixed memory for the batch and the
// values and gradients that cross the stage's cuts, from and to which these are copied; activations and what is alive
// within passes lie in memory that the slot's graphs share. Weights and gradients must stay where they are. Whether a
// gradient is overwritten or added to is part of the work: micro-batches of a slot that differ in it have graphs of
// their own, in the same memory.
//
// The passes must have the same shapes and numbers in each step, but for those that all micro-batches of a step have
// from the PassContext (fp16's loss scale): when these change, all is captured anew. Samples that share sequences, rows
// that do not count, dropout and recorders are no part of it; the recipe's rules refuse them.
class CapturedPasses final : public StagePasses {
 public:
  CapturedPasses(std::unique_ptr<StagePasses> stage, CaptureSetting setting);

  Output forward(Tensors incoming, std::int64_t index, const Batch& batch, const PassContext& pass) override;
  Tensors backward(Tensors gradients, std::int64_t index, const Batch& batch, const PassContext& pass) override;
  at::Tensor take_routing() override { return stage_->take_routing(); }
  std::vector<at::Tensor> take_chosen() override { return stage_->take_chosen(); }

 private:
  using Written = std::vector<std::vector<bool>>;  // by store, ParameterStore::written()

  // A pass and what it needs and leaves of the stores.
  struct Pass {
    Written before, after;
    std::unique_ptr<CapturedWork> work;
  };
  // The graphs of micro-batches that are alike.
  struct Passes {
    Pass forward, backward;
    std::vector<LossRows> losses;
  };
  struct Slot {
    Batch batch;
    Tensors incoming, outgoing, outgoing_gradients, incoming_gradients;
    std::vector<std::unique_ptr<Passes>> passes;
    Passes* in_flight = nullptr;  // from a forward to its backward
  };
  // What the micro-batch's passes found in the stores in the first step.
  struct Found {
    Written forward, backward;
  };

  bool is_plain(const PassContext& pass);
  Written written() const;
  void start(const Batch& batch, const PassContext& pass);
  Passes& passes_of(Slot& slot, std::int64_t index);
  void run(Pass& pass, const Slot& slot, const std::function<void()>& work);

  std::unique_ptr<StagePasses> stage_;
  CaptureSetting setting_;
  std::optional<std::int64_t> plain_step_;
  std::vector<Found> found_;  // by micro-batch
  std::vector<Slot> slots_;
  std::vector<double> numbers_;  // that captured work depends on; empty: nothing is captured
};

}  // namespace llmtrain
