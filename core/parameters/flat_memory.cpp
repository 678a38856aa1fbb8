// SPDX-License-Identifier: Apache-2.0
#include "core/parameters/flat_memory.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <sys/mman.h>

#include <cstddef>
#include <new>

namespace llmtrain {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

std::size_t round_up(std::size_t bytes) { return (bytes + huge_page - 1) / huge_page * huge_page; }

// Reported to PyTorch's memory profiler as any other tensor is.
void report(void* memory, std::int64_t bytes) {
  if (c10::memoryProfilingEnabled()) c10::reportMemoryUsageToProfiler(memory, bytes, 0, 0, at::kCPU);
}

}  // namespace

at::Tensor make_flat_memory(std::int64_t elements, at::ScalarType type, const at::Device& device) {
  const auto options = at::TensorOptions().dtype(type).device(device);
  const std::size_t bytes = static_cast<std::size_t>(elements) * at::elementSize(type);
  // Below one huge page the allocator's memory is as good.
  if (!device.is_cpu() || bytes < huge_page) return at::zeros({elements}, options);
  const std::size_t mapped = round_up(bytes);
  // Anonymous pages read as zero and are only allocated when first written, by the thread that writes.
  void* memory = ::mmap(nullptr, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  // A hint: where the system does not grant huge pages, ordinary ones serve.
  ::madvise(memory, mapped, MADV_HUGEPAGE);
  report(memory, static_cast<std::int64_t>(bytes));
  const auto release = [mapped, bytes](void* start) {
    ::munmap(start, mapped);
    report(start, -static_cast<std::int64_t>(bytes));
  };
  return at::from_blob(memory, {elements}, release, options);
}

}  // namespace llmtrain
