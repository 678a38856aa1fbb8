// SPDX-License-Identifier: Apache-2.0
#include "kernels/rope.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/outer.h>
#include <ATen/ops/pow.h>

#include <algorithm>
#include <string>

#include "core/base/error.h"
#include "kernels/cuda_operators/rope.h"
#include "kernels/reference/operators.h"
#include "kernels/vector/level.h"
#include "kernels/vector/rope.h"
#include "kernels/vector_dispatch.h"

namespace llmtrain::kernels {
namespace {

void check_table(const at::Tensor& x, const RopeTable& table, std::int64_t sequence_length) {
  const bool enough_positions = std::min(x.size(0), sequence_length) <= table.cosine.size(0);
  if (sequence_length > 0 && enough_positions && x.size(2) == 2 * table.cosine.size(1)) return;
  throw Error(ExitCode::internal_error, "rope: the table is for " + std::to_string(table.cosine.size(0)) +
                                            " positions and head_dim " + std::to_string(2 * table.cosine.size(1)) +
                                            "; the call needs sequence_length " + std::to_string(sequence_length) +
                                            " and head_dim " + std::to_string(x.size(2)));
}

}  // namespace

RopeTable make_rope_table(std::int64_t positions, std::int64_t head_dim, double theta, const at::Device& device) {
  const at::Tensor exponents = at::arange(0, head_dim, 2, at::kDouble).div(-static_cast<double>(head_dim));
  return make_rope_table(positions, at::pow(theta, exponents), 1, device);
}

RopeTable make_rope_table(std::int64_t positions, const at::Tensor& frequencies, double amplitude,
                          const at::Device& device) {
  // Angles grow with the position: fp32 would leave few digits of them modulo 2π. Only their cosine and sine are
  // rounded.
  const at::Tensor angles = at::outer(at::arange(positions, at::kDouble), frequencies);
  return {.cosine = angles.cos().mul_(amplitude).to(device, at::kFloat),
          .sine = angles.sin().mul_(amplitude).to(device, at::kFloat)};
}

RopeTable rope_rows(const RopeTable& table, const SequencePart& part, std::int64_t tokens) {
  return {.cosine = rows_at(table.cosine, part, tokens), .sine = rows_at(table.sine, part, tokens)};
}

void rope_(at::Tensor& x, const RopeTable& table, std::int64_t sequence_length, RopeDirection direction) {
  check_table(x, table, sequence_length);
  if (has_cuda_rope(x, table)) {
    cuda_rope_(x, table, sequence_length, direction);
    return;
  }
  // Only the last axis must be contiguous: queries and keys are slices of a wider matrix.
  if (!has_vector_type(x) || x.stride(-1) != 1 || table.cosine.scalar_type() != at::kFloat) {
    reference::rope_(x, table, sequence_length, direction);
    return;
  }
  with_element_of(x, [&]<class Element> {
    const auto loop = vector::at_level([]<int level> { return vector::rope_loop_for<level, Element>(); });
    loop({.x = mutable_elements<Element>(x),
          .cosine = table.cosine.const_data_ptr<float>(),
          .sine = table.sine.const_data_ptr<float>(),
          .tokens = x.size(0),
          .heads = x.size(1),
          .half = x.size(2) / 2,
          .token_stride = x.stride(0),
          .head_stride = x.stride(1),
          .sequence_length = sequence_length,
          .direction = direction == RopeDirection::forward ? 1.0F : -1.0F});
  });
}

}  // namespace llmtrain::kernels
