// SPDX-License-Identifier: Apache-2.0
#include "core/model/moe/row_parts.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/searchsorted.h>
#include <ATen/ops/tensor.h>

#include <cstddef>
#include <vector>

#include "kernels/host_copy.h"

namespace llmtrain {
namespace {

// The map's row of each new one, for groups of consecutive rows: what an index must be moved by, and the groups' ends.
at::Tensor old_rows(const std::vector<std::int64_t>& moves, const std::vector<std::int64_t>& ends,
                    const at::Device& device) {
  const auto groups = static_cast<std::int64_t>(ends.size());
  const at::Tensor table = kernels::to_device(at::cat({at::tensor(ends), at::tensor(moves)}), device);
  const at::Tensor rows = at::arange(ends.back(), table.options());
  const at::Tensor group = at::searchsorted(table.narrow(0, 0, groups), rows, false, true);
  return table.narrow(0, groups, groups).index_select(0, group).add_(rows);
}

}  // namespace

kernels::ExpertRows in_parts(const kernels::ExpertRows& map, std::int64_t parts) {
  if (parts == 1) return map;
  kernels::ExpertRows result;
  result.offsets.push_back(0);
  std::vector<std::int64_t> moves;
  for (std::int64_t part = 0; part < parts; ++part) {
    for (std::int64_t expert = 0; expert < map.experts(); ++expert) {
      const std::int64_t rows = map.rows_of(expert), begin = part_begin(rows, part, parts);
      moves.push_back(map.offsets[static_cast<std::size_t>(expert)] + begin - result.offsets.back());
      result.offsets.push_back(result.offsets.back() + part_begin(rows, part + 1, parts) - begin);
    }
  }
  const std::vector<std::int64_t> ends(result.offsets.begin() + 1, result.offsets.end());
  const at::Device device = map.choice_of.device();
  result.choice_of = map.choice_of.index_select(0, old_rows(moves, ends, device));
  result.row_of = at::full_like(map.row_of, -1);
  result.row_of.view(-1).index_copy_(0, result.choice_of, at::arange(map.rows(), result.choice_of.options()));
  return result;
}

}  // namespace llmtrain
