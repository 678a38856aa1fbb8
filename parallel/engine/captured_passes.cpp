// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/captured_passes.h"

#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// In memory of its own, made at the first time.
void copy_into(at::Tensor& fixed, const at::Tensor& values) {
  if (!values.defined()) return;
  if (!fixed.defined()) fixed = at::empty_like(values, at::MemoryFormat::Contiguous);
  fixed.copy_(values);
}

void copy_into(Tensors& fixed, const Tensors& values) {
  fixed.resize(values.size());
  for (std::size_t i = 0; i < values.size(); ++i) copy_into(fixed[i], values[i]);
}

// The next launch writes over the fixed ones, which may still be on their way to another rank.
Tensors copies_of(const Tensors& fixed) {
  Tensors copies;
  for (const at::Tensor& tensor : fixed) copies.push_back(tensor.defined() ? tensor.clone() : at::Tensor());
  return copies;
}

void copy_into(Batch& fixed, const Batch& batch) {
  for (std::size_t i = 0; i < batch.fields.size(); ++i) copy_into(fixed.fields[i], batch.fields[i]);
  fixed.rows = batch.rows;
}

// All that decides on a pass's work but tensors' contents.
std::vector<double> numbers_of(const Batch& batch, const PassContext& pass) {
  std::vector<double> numbers = pass.loss_gradients;
  numbers.insert(numbers.end(), {pass.backward_scale, pass.batch_rows, static_cast<double>(pass.kept_tokens)});
  for (const at::Tensor& field : batch.fields)
    numbers.push_back(field.defined() ? static_cast<double>(field.numel()) : -1);
  for (const Sequences& sequences : batch.rows) {
    numbers.push_back(static_cast<double>(sequences.count));
    numbers.push_back(static_cast<double>(sequences.length));
  }
  return numbers;
}

void require_fixed(const Batch& batch, const PassContext& pass) {
  const Recorders& recorders = pass.recorders;
  const bool is_recorded = recorders.fp8_statistics != nullptr || recorders.fp8_history != nullptr;
  const bool has_documents =
      std::ranges::any_of(batch.rows, [](const Sequences& sequences) { return !sequences.documents.empty(); });
  if (is_recorded || has_documents || batch.field(BatchField::counted_rows).defined())
    throw Error(ExitCode::internal_error,
                "kernels.cuda_graphs: a pass is to be captured that differs from step to step");
}

}  // namespace

std::vector<std::size_t> activation_slots(const RankSchedule& schedule, std::int32_t stage) {
  std::vector<std::size_t> slots;
  std::vector<bool> in_use;
  for (const Instruction& instruction : schedule.instructions) {
    if (instruction.stage != stage) continue;
    const auto micro = static_cast<std::size_t>(instruction.micro);
    if (instruction.operation == Operation::backward) in_use[slots[micro]] = false;
    if (instruction.operation != Operation::forward) continue;
    const auto free = static_cast<std::size_t>(std::ranges::find(in_use, false) - in_use.begin());
    if (free == in_use.size()) in_use.push_back(false);
    in_use[free] = true;
    slots.resize(std::max(slots.size(), micro + 1));
    slots[micro] = free;
  }
  return slots;
}

CapturedPasses::CapturedPasses(std::unique_ptr<StagePasses> stage, CaptureSetting setting)
    : stage_(std::move(stage)),
      setting_(std::move(setting)),
      found_(setting_.slots.size()),
      slots_(setting_.slots.empty() ? 0 : std::ranges::max(setting_.slots) + 1) {}

bool CapturedPasses::is_plain(const PassContext& pass) {
  if (!plain_step_) plain_step_ = pass.step;
  return plain_step_ == pass.step;
}

CapturedPasses::Written CapturedPasses::written() const {
  Written written;
  for (const ParameterStore* store : setting_.stores()) written.push_back(store->written());
  return written;
}

// Before a forward: begins anew where captured work would be of another pass.
void CapturedPasses::start(const Batch& batch, const PassContext& pass) {
  require_fixed(batch, pass);
  std::vector<double> numbers = numbers_of(batch, pass);
  if (numbers == numbers_) return;
  if (std::ranges::any_of(slots_, [](const Slot& slot) { return slot.in_flight != nullptr; }))
    throw Error(ExitCode::internal_error, "kernels.cuda_graphs: the micro-batches of a step differ");
  for (Slot& slot : slots_) slot = {};
  numbers_ = std::move(numbers);
  runtime_of(setting_.device).release_cached_memory(setting_.device);
}

CapturedPasses::Passes& CapturedPasses::passes_of(Slot& slot, std::int64_t index) {
  const Found& found = found_[static_cast<std::size_t>(index)];
  const auto same = std::ranges::find_if(slot.passes, [&](const std::unique_ptr<Passes>& passes) {
    return passes->forward.before == found.forward && passes->backward.before == found.backward;
  });
  if (same != slot.passes.end()) return **same;
  Passes& passes = *slot.passes.emplace_back(std::make_unique<Passes>());
  passes.forward.before = found.forward;
  passes.backward.before = found.backward;
  return passes;
}

// Launches the pass; before the first launch captures it, of which `work` is what runs.
void CapturedPasses::run(Pass& pass, const Slot& slot, const std::function<void()>& work) {
  if (written() != pass.before)
    throw Error(ExitCode::internal_error, "kernels.cuda_graphs: gradients are not as they were in the first step");
  if (pass.work) {
    pass.work->launch();
    const std::vector<ParameterStore*> stores = setting_.stores();
    for (std::size_t i = 0; i < stores.size(); ++i) stores[i]->set_written(pass.after[i]);
    return;
  }
  pass.work = runtime_of(setting_.device).capture(setting_.device, work, slot.passes.front()->forward.work.get());
  pass.after = written();
  pass.work->launch();
}

StagePasses::Output CapturedPasses::forward(Tensors incoming, std::int64_t index, const Batch& batch,
                                            const PassContext& pass) {
  if (!pass.trains()) return stage_->forward(std::move(incoming), index, batch, pass);
  const auto micro = static_cast<std::size_t>(index);
  if (is_plain(pass)) {
    found_[micro].forward = written();
    return stage_->forward(std::move(incoming), index, batch, pass);
  }
  start(batch, pass);
  Slot& slot = slots_[setting_.slots[micro]];
  copy_into(slot.batch, batch);
  copy_into(slot.incoming, incoming);
  incoming.clear();
  Passes& passes = passes_of(slot, index);
  run(passes.forward, slot, [&] {
    Output made = stage_->forward(slot.incoming, index, slot.batch, pass);
    copy_into(slot.outgoing, made.values);
    passes.losses = std::move(made.losses);
  });
  slot.in_flight = setting_.has_backward ? &passes : nullptr;
  return {.values = copies_of(slot.outgoing), .losses = passes.losses};
}

Tensors CapturedPasses::backward(Tensors gradients, std::int64_t index, const Batch& batch, const PassContext& pass) {
  const auto micro = static_cast<std::size_t>(index);
  if (is_plain(pass)) {
    found_[micro].backward = written();
    return stage_->backward(std::move(gradients), index, batch, pass);
  }
  Slot& slot = slots_[setting_.slots[micro]];
  copy_into(slot.outgoing_gradients, gradients);
  gradients.clear();
  Passes& passes = *std::exchange(slot.in_flight, nullptr);
  run(passes.backward, slot,
      [&] { copy_into(slot.incoming_gradients, stage_->backward(slot.outgoing_gradients, index, slot.batch, pass)); });
  return copies_of(slot.incoming_gradients);
}

}  // namespace llmtrain
