// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/training/limit_watch.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <vector>

#include "core/base/units.h"
#include "parallel/comm/agreement.h"
#include "parallel/device/device_runtime.h"

namespace llmtrain {
namespace {

// Single numbers, such as losses, which plans leave out: 512 bytes each on a GPU.
constexpr std::int64_t uncounted = 64 * 1024;

std::optional<std::int64_t> limit_of(const RunRequest& request, const LocalModel& model) {
  if (!request.tensor_limit) return std::nullopt;
  return request.tensor_limit->bytes.at(static_cast<std::size_t>(model.groups().pipeline.position()));
}

}  // namespace

LimitWatch::LimitWatch(const RunRequest& request, const LocalModel& model, ThreadMemory& memory)
    : limit_(limit_of(request, model)), device_(model.device()), memory_(memory) {}

void LimitWatch::begin_step() {
  if (!limit_) return;
  device_.is_cpu() ? memory_.restart_peak() : runtime_of(device_).restart_peak(device_);
}

void LimitWatch::end_step() {
  if (!limit_) return;
  const std::int64_t peak = device_.is_cpu() ? memory_.recent_peak() : runtime_of(device_).recent_peak(device_);
  if (peak > *limit_ + uncounted) excess_ = std::max(excess_, peak - *limit_);
}

MemoryExcess largest_excess(Communicator& communicator, std::int64_t own) {
  const std::vector<std::int64_t> all = exchange_numbers(communicator, own);
  const auto largest = std::ranges::max_element(all);
  return {static_cast<int>(largest - all.begin()), *largest};
}

std::string excess_text(std::int64_t step, const MemoryExcess& excess) {
  return fmt::format("step {}: the tensors of rank {} take {} more than memory.limit leaves for them", step,
                     excess.rank, format_bytes(excess.bytes));
}

}  // namespace llmtrain
