// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include "kernels/sequence_part.h"

namespace llmtrain::kernels {

// Rotary position embedding (Su et al., arXiv 2104.09864) in the "rotate half" layout that Hugging Face uses: element
// i of a head is paired with element i + head_dim/2. head_dim is even.
struct RopeTable {
  at::Tensor cosine;  // [positions, head_dim/2], fp32
  at::Tensor sine;    // [positions, head_dim/2], fp32
};

// angle(p, i) = p · theta^(−2i/head_dim), computed in float64.
RopeTable make_rope_table(std::int64_t positions, std::int64_t head_dim, double theta, const at::Device& device);

// angle(p, i) = p · frequencies[i], in float64; cosines and sines are multiplied by `amplitude`. frequencies is float64
// [head_dim/2], on the CPU.
RopeTable make_rope_table(std::int64_t positions, const at::Tensor& frequencies, double amplitude,
                          const at::Device& device);

// The angles of a part of a sequence: row i is that of its i-th token. Shares the table's memory where the part is the
// whole sequence.
RopeTable rope_rows(const RopeTable& table, const SequencePart& part, std::int64_t tokens);

enum class RopeDirection { forward, backward };  // backward rotates by the negative angle

// Rotates in place. x is a view [T, heads, head_dim] whose last axis is contiguous (rows may be strided, as in a slice
// of the fused query-key-value tensor). Token t is rotated by the angles of row t mod sequence_length.
void rope_(at::Tensor& x, const RopeTable& table, std::int64_t sequence_length, RopeDirection direction);

}  // namespace llmtrain::kernels
