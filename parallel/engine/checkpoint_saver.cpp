// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/checkpoint_saver.h"

#include <chrono>
#include <cstddef>
#include <cstring>
#include <memory>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/checkpoint/safetensors.h"

namespace llmtrain {
namespace {

using Clock = std::chrono::steady_clock;

double seconds_since(Clock::time_point start) { return std::chrono::duration<double>(Clock::now() - start).count(); }

std::size_t bytes_of(const TensorSlice& slice) {
  const auto bytes = safetensors_bytes(slice.dtype, slice.slice_shape);
  if (!bytes)
    throw Error(ExitCode::internal_error, "the slice of " + slice.name + " has no size: dtype " + slice.dtype);
  return static_cast<std::size_t>(*bytes);
}

// The slices and what they point to, in one piece of memory.
class Snapshot {
 public:
  explicit Snapshot(std::span<const TensorSlice> slices) : slices_(slices.begin(), slices.end()) {
    std::size_t total = 0;
    for (const TensorSlice& slice : slices_) total += bytes_of(slice);
    memory_ = std::make_unique_for_overwrite<std::byte[]>(total);
    std::byte* next = memory_.get();
    for (TensorSlice& slice : slices_) {
      const std::size_t count = bytes_of(slice);
      if (count > 0) std::memcpy(next, slice.data, count);
      slice.data = next;
      next += count;
    }
  }

  std::span<const TensorSlice> slices() const { return slices_; }

 private:
  std::vector<TensorSlice> slices_;
  std::unique_ptr<std::byte[]> memory_;
};

}  // namespace

CheckpointSaver::CheckpointSaver(std::filesystem::path checkpoints, const CheckpointRecipe& recipe)
    : checkpoints_(std::move(checkpoints)), recipe_(recipe) {}

CheckpointSaver::~CheckpointSaver() {
  try {
    finish();
  } catch (const std::exception& error) {
    log().error("the last checkpoint was not saved: {}", error.what());
  }
}

void CheckpointSaver::write(const CheckpointState& state, std::span<const TensorSlice> slices) {
  finish();
  if (!recipe_.async) return write_now(state, slices);
  const auto start = Clock::now();
  Snapshot snapshot(slices);
  log().debug("checkpoint of step {}: copied in {}", state.step, format_duration(seconds_since(start)));
  thread_ = std::thread([this, state, snapshot = std::move(snapshot)] {
    try {
      write_now(state, snapshot.slices());
    } catch (...) {
      failure_ = std::current_exception();
    }
  });
}

void CheckpointSaver::finish() {
  if (thread_.joinable()) thread_.join();
  if (const auto failure = std::exchange(failure_, nullptr)) std::rethrow_exception(failure);
}

void CheckpointSaver::write_now(const CheckpointState& state, std::span<const TensorSlice> slices) const {
  const auto start = Clock::now();
  const auto folder = write_checkpoint(checkpoints_, state, slices, recipe_.keep);
  log().debug("checkpoint of step {}: written to {} in {}", state.step, folder.string(),
              format_duration(seconds_since(start)));
}

}  // namespace llmtrain
