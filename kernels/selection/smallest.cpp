// SPDX-License-Identifier: Apache-2.0
#include "kernels/selection/smallest.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/sort.h>

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

namespace llmtrain::kernels {
namespace {

template <class Element>
bool comes_before(Element one, Element other) {
  return one < other || (std::isnan(other) && !std::isnan(one));
}

// A heap of those found so far, the last of them on top: an element that does not come before that one is passed over,
// which equal elements behind it never do.
template <class Element>
void smallest_of_row(const Element* row, std::int64_t extent, std::int64_t count, std::int64_t* places,
                     std::vector<std::pair<Element, std::int64_t>>& heap) {
  using Found = std::pair<Element, std::int64_t>;
  const auto ascending = [](const Found& one, const Found& other) {
    if (comes_before(one.first, other.first)) return true;
    return !comes_before(other.first, one.first) && one.second < other.second;
  };
  heap.clear();
  for (std::int64_t i = 0; i < extent; ++i) {
    if (std::ssize(heap) < count) {
      heap.emplace_back(row[i], i);
      std::ranges::push_heap(heap, ascending);
    } else if (comes_before(row[i], heap.front().first)) {
      std::ranges::pop_heap(heap, ascending);
      heap.back() = {row[i], i};
      std::ranges::push_heap(heap, ascending);
    }
  }
  std::ranges::sort_heap(heap, ascending);
  for (const Found& found : heap) *places++ = found.second;
}

template <class Element>
at::Tensor smallest_of_rows(const at::Tensor& x, std::int64_t count, at::Tensor places) {
  const std::int64_t extent = x.size(-1), rows = extent == 0 ? 0 : x.numel() / extent;
  const auto* const elements = x.const_data_ptr<Element>();
  auto* const found = places.mutable_data_ptr<std::int64_t>();
  at::parallel_for(0, rows, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<std::pair<Element, std::int64_t>> heap;
    heap.reserve(static_cast<std::size_t>(count));
    for (std::int64_t row = begin; row < end; ++row)
      smallest_of_row(elements + row * extent, extent, count, found + row * count, heap);
  });
  return places;
}

}  // namespace

at::Tensor smallest_places(const at::Tensor& x, std::int64_t count) {
  std::vector<std::int64_t> sizes = x.sizes().vec();
  sizes.back() = count;
  const auto places = [&] { return at::empty(sizes, x.options().dtype(at::kLong)); };
  if (count == 0 || x.numel() == 0) return places();
  if (x.is_cpu() && x.scalar_type() == at::kFloat) return smallest_of_rows<float>(x, count, places());
  if (x.is_cpu() && x.scalar_type() == at::kDouble) return smallest_of_rows<double>(x, count, places());
  return std::get<1>(at::sort(x, true, -1, false)).narrow(-1, 0, count).contiguous();
}

}  // namespace llmtrain::kernels
