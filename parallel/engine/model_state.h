// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <filesystem>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "core/checkpoint/checkpoint.h"
#include "core/huggingface/weight_source.h"
#include "parallel/comm/communicator.h"
#include "parallel/device/state_copy.h"
#include "parallel/engine/local_model.h"

namespace llmtrain {

// Moves a model's state between its flat memory and checkpoints. A checkpoint holds a parameter's weights as `<name>`
// in the compute type, its master weights as `<name>.master` and the optimizer's states (`<name>.m` and `<name>.v` for
// AdamW) in fp32. Without a rounded copy the weights are their own master and no `.master` is written. At FP8 levels
// that store FP8 a tensor of a matrix's states may be in fp16 or E4M3: the stored number divided by `<tensor>.scale`
// (fp32 [1]), as in `<name>.scale`, `<name>.master.scale` and `<name>.m.scale`; `<name>.mu` is the headroom of its
// gradients (parallel/shard/states/tensor_scales.h). With delayed scaling, and where layers may leave FP8, there is
// what fp8_history_state.h says. The states of any level load at any other.

// What this rank writes to a checkpoint: all ranks together write every element once, and ranks that hold the same
// elements write an equal share each. The slices point into the model's memory, or for a GPU into a host copy that
// `memory` owns.
struct StateSlices {
  std::vector<TensorSlice> slices;
  std::shared_ptr<const void> memory;
  std::shared_ptr<StateCopy> copy{};  // of copied_slices()
};
// `all`, or what is not frozen, where the frozen base of adapters is left out (CheckpointState::base).
enum class SavedParameters { all, trained };
StateSlices state_slices(const LocalModel& model, SavedParameters saved = SavedParameters::all);

// What state_slices() copies of a GPU, and the same without waiting for it: the slices point into `host`, which has so
// many bytes, and hold the state of this moment once copy->run() has returned. The states must not change before
// copy->release(), which LocalModel::lend_states() sees to. `memory` owns a few numbers.
std::size_t state_bytes(const LocalModel& model, SavedParameters saved = SavedParameters::all);
StateSlices copied_slices(const LocalModel& model, std::byte* host, SavedParameters saved = SavedParameters::all);

// Loads weights and optimizer states from a checkpoint; each rank reads what it owns, in pieces of bounded size. Throws
// Error(bad_data) if a tensor is missing or has another shape. The base that a checkpoint of adapters leaves out is
// read from the folder that it or the recipe names; the first rank finds whether it is the same. Collective. Throws
// what `report` throws.
void load_state(LocalModel& model, const CheckpointReader& checkpoint, const ReportShare& report = report_nothing);

// Loads only the weights, from a checkpoint (its master weights if it has them), which may lack those of adapters, or
// from another source, in pieces of bounded size. What is not given keeps its values, and so do the parameters whose
// names are in `anew`.
using ParameterNames = std::span<const std::string>;
void load_weights(LocalModel& model, const CheckpointReader& checkpoint, const ReportShare& report = report_nothing,
                  ParameterNames anew = {});
void load_weights(LocalModel& model, const WeightSource& source, const ReportShare& report = report_nothing,
                  ParameterNames anew = {});

// Verifies a checkpoint; each rank takes an equal share of its files. Collective: all ranks call it, and all of them
// throw if verify() throws on any; blocks.
void verify_together(Communicator& communicator, const CheckpointReader& checkpoint, const WorkMonitor& monitor = {});

// Lets the first rank look through checkpoints until it finds an intact one, while all ranks help to verify each.
class SharedVerification {
 public:
  // The communicator must outlive this.
  explicit SharedVerification(Communicator& communicator, WorkMonitor monitor = {})
      : communicator_(communicator), monitor_(std::move(monitor)) {}

  // Calls `search` on the first rank; what it is given verifies a checkpoint on all ranks, and throws if verify()
  // throws on any. Checkpoints that were found intact before are not read again. Collective; blocks until `search`
  // returns.
  void run(const std::function<void(const VerifyCheckpoint&)>& search);

 private:
  Communicator& communicator_;
  WorkMonitor monitor_;
  std::set<std::filesystem::path> whole_;
};

}  // namespace llmtrain
