// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/row_parts.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/full_like.h>

#include <numeric>

namespace llmtrain {

kernels::ExpertRows in_parts(const kernels::ExpertRows& map, std::int64_t parts) {
  if (parts == 1) return map;
  const at::Tensor order = at::empty({map.rows()}, at::kLong);  // the map's row of each new one
  auto* next = order.mutable_data_ptr<std::int64_t>();
  kernels::ExpertRows result;
  result.offsets.push_back(0);
  for (std::int64_t part = 0; part < parts; ++part) {
    for (std::int64_t expert = 0; expert < map.experts(); ++expert) {
      const std::int64_t rows = map.rows_of(expert), begin = part_begin(rows, part, parts);
      const std::int64_t count = part_begin(rows, part + 1, parts) - begin;
      std::iota(next, next + count, map.offsets[static_cast<std::size_t>(expert)] + begin);
      next += count;
      result.offsets.push_back(result.offsets.back() + count);
    }
  }
  result.choice_of = map.choice_of.index_select(0, order.to(map.choice_of.device()));
  result.row_of = at::full_like(map.row_of, -1);
  result.row_of.view(-1).index_copy_(0, result.choice_of, at::arange(map.rows(), result.choice_of.options()));
  return result;
}

}  // namespace llmtrain
