// SPDX-License-Identifier: Apache-2.0
#include "core/parameters/flat_memory.h"

#include <ATen/ops/from_blob.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <sys/mman.h>

#include <cstddef>
#include <new>
#include <numeric>
#include <string>
#include <vector>

#include "core/base/hash.h"
#include "kernels/random/random.h"

namespace llmtrain {
namespace {

constexpr std::size_t huge_page = std::size_t{2} << 20;

// Reported to PyTorch's memory profiler as any other tensor is.
void report(void* memory, std::int64_t bytes) {
  if (c10::memoryProfilingEnabled()) c10::reportMemoryUsageToProfiler(memory, bytes, 0, 0, at::kCPU);
}

// A stream per name: adding or moving parameters does not change the others' values.
std::uint64_t stream_key(std::int64_t seed, const std::string& name) {
  return stable_hash(std::to_string(seed) + "/" + name);
}

// Distance in elements between consecutive indices of each axis.
std::vector<std::int64_t> strides_of(const std::vector<std::int64_t>& shape) {
  std::vector<std::int64_t> strides(shape.size(), 1);
  for (std::size_t axis = shape.size(); axis-- > 1;) strides[axis - 1] = strides[axis] * shape[axis];
  return strides;
}

// `box` begins at element `first` of a tensor with these strides.
void fill_box(at::Tensor box, const std::int64_t* strides, std::int64_t first, std::uint64_t key, double deviation) {
  if (box.dim() > 2) {
    // Experts: one matrix after another.
    for (std::int64_t i = 0; i < box.size(0); ++i)
      fill_box(box.select(0, i), strides + 1, first + i * strides[0], key, deviation);
    // A part of each row, from a split by input features: rows are apart in the whole tensor. Otherwise all elements
    // are consecutive there.
  } else if (box.dim() == 2 && box.size(1) < strides[0]) {
    kernels::fill_normal_block_(box, key, deviation, first, strides[0]);
  } else {
    kernels::fill_normal_(box, key, deviation, first);
  }
}

// `weights` has the part's shape.
void fill_normal(const at::Tensor& weights, const Parameter& parameter, const LocalPart& part, std::uint64_t key) {
  const auto strides = strides_of(parameter.shape);
  const std::int64_t first = std::inner_product(strides.begin(), strides.end(), part.offset.begin(), std::int64_t{0});
  const std::int64_t real = part.real_shape[0];
  if (real > 0) fill_box(weights.narrow(0, 0, real), strides.data(), first, key, parameter.standard_deviation);
  weights.narrow(0, real, part.shape[0] - real).zero_();
}

}  // namespace

at::Tensor make_flat_memory(std::int64_t elements, at::ScalarType type, const at::Device& device) {
  const auto options = at::TensorOptions().dtype(type).device(device);
  const std::size_t bytes = static_cast<std::size_t>(elements) * at::elementSize(type);
  // Below one huge page the allocator's memory is as good.
  if (!device.is_cpu() || bytes < huge_page) return at::zeros({elements}, options);
  const std::size_t mapped = (bytes + huge_page - 1) / huge_page * huge_page;
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

void initialize_weights(const at::Tensor& flat, const ParameterStore& store, const Graph& graph, std::int64_t seed) {
  for (const FlatRange& range : store.ranges()) {
    const Parameter& parameter = graph.parameters[range.parameter];
    at::Tensor weights = flat.slice(0, range.begin, range.end);
    switch (parameter.initialization) {
      case Initialization::zeros:
        weights.zero_();
        break;
      case Initialization::ones:
        weights.fill_(1);
        break;
      case Initialization::normal: {
        // Only the rank's part is generated: elements are random-access in their stream.
        const LocalPart& part = store.part(range.parameter);
        fill_normal(weights.view(part.shape), parameter, part, stream_key(seed, parameter.name));
        break;
      }
    }
  }
}

}  // namespace llmtrain
