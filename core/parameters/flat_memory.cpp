// SPDX-License-Identifier: Apache-2.0
#include "core/parameters/flat_memory.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/ones.h>
#include <ATen/ops/zeros.h>
#include <c10/core/Allocator.h>
#include <sys/mman.h>

#include <algorithm>
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

// `box`, rows of a matrix or elements of a vector, begins at element `first` of a tensor whose rows are `stride` apart.
void fill_box(at::Tensor box, std::int64_t stride, std::int64_t first, std::uint64_t key, double deviation) {
  // A part of each row, from a split by input features: rows are apart in the whole tensor. Otherwise all elements are
  // consecutive there.
  if (box.dim() == 2 && box.size(1) < stride) {
    kernels::fill_normal_block_(box, key, deviation, first, stride);
  } else {
    kernels::fill_normal_(box, key, deviation, first);
  }
}

// Rows of a part are its elements along the last axis, whose length this is; of a vector each element is one.
std::int64_t row_length(const LocalPart& part) { return part.shape.size() == 1 ? 1 : part.shape.back(); }

// Fills rows [first, first + count) of a part, in the order of memory; `weights` [count · row length].
void fill_rows(const at::Tensor& weights, const Parameter& parameter, const LocalPart& part, std::uint64_t key,
               std::int64_t first, std::int64_t count) {
  const auto strides = strides_of(parameter.shape);
  const std::size_t axes = part.shape.size();
  const std::int64_t length = row_length(part);
  // Along the axis before the last one rows are at equal distances in the whole tensor.
  const std::int64_t each = axes > 2 ? part.shape[axes - 2] : part.shape[0];
  const std::int64_t real = axes > 2 ? part.real_shape[0] * each : part.real_shape[0];
  const std::int64_t origin = std::inner_product(strides.begin(), strides.end(), part.offset.begin(), std::int64_t{0});
  for (std::int64_t row = first; row < first + count;) {
    const std::int64_t matrix = row / each, in_matrix = row % each;
    const std::int64_t end = row < real ? std::min({first + count, real, (matrix + 1) * each}) : first + count;
    const std::int64_t rows = end - row;
    at::Tensor to = weights.narrow(0, (row - first) * length, rows * length);
    if (row >= real) {
      to.zero_();
    } else {
      const std::size_t axis = axes > 1 ? axes - 2 : 0;
      const std::int64_t begin = origin + (axes > 2 ? matrix * strides[0] : 0) + in_matrix * strides[axis];
      fill_box(axes > 1 ? to.view({rows, length}) : to, strides[axis], begin, key, parameter.standard_deviation);
    }
    row = end;
  }
}

// Elements [begin, end) of a part.
at::Tensor weights_of(const Parameter& parameter, const LocalPart& part, std::int64_t seed, std::int64_t begin,
                      std::int64_t end) {
  switch (parameter.initialization) {
    case Initialization::zeros:
      return at::zeros({end - begin}, at::kFloat);
    case Initialization::ones:
      return at::ones({end - begin}, at::kFloat);
    case Initialization::normal: {
      const std::int64_t length = row_length(part), first = begin / length, count = (end - 1) / length + 1 - first;
      const at::Tensor rows = at::empty({count * length}, at::kFloat);
      fill_rows(rows, parameter, part, stream_key(seed, parameter.name), first, count);
      return rows.narrow(0, begin - first * length, end - begin);
    }
  }
  return {};
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

void for_initial_weights(const ParameterStore& store, const Graph& graph, std::int64_t seed, std::int64_t begin,
                         std::int64_t end, const TakeWeights& take) {
  constexpr std::int64_t piece = 1 << 22;
  for (const FlatRange& range : store.ranges()) {
    const std::int64_t last = std::min(end, range.end);
    for (std::int64_t from = std::max(begin, range.begin); from < last; from += piece) {
      const std::int64_t to = std::min(from + piece, last);
      take(from, weights_of(graph.parameters[range.parameter], store.part(range.parameter), seed, from - range.begin,
                            to - range.begin));
    }
  }
}

}  // namespace llmtrain
