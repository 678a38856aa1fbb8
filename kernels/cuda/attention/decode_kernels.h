// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU for one new token of each of many sequences (kernels/attention/cached_attention.h), with raw
// pointers to device memory. LibTorch and CUDA are not needed here.
#pragma once

#include <cstdint>

#include "kernels/cuda/kernel_element.h"

namespace llmtrain::kernels {

// Keys that a block attends to: whatever else a pass has, a token's keys are cut at the same places.
constexpr std::int64_t decode_piece = 128;
constexpr std::int64_t decode_pieces(std::int64_t keys) { return (keys + decode_piece - 1) / decode_piece; }
// Elements of a head that a block holds.
constexpr std::int64_t most_decode_dim = 256;

// Rows of tokens, each of some heads side by side.
struct DecodeRows {
  const void* rows = nullptr;                      // [tokens, heads, dim]
  std::int64_t token_stride = 0, head_stride = 0;  // elements
};

struct DecodeArguments {
  KernelElement element = KernelElement::bf16;  // of all but the numbers below
  DecodeRows query, key, value;
  void *keys = nullptr, *values = nullptr;                        // [sequences, kv_heads, capacity, dim]
  void* out = nullptr;                                            // [tokens, heads, dim]
  const std::int64_t *sequences = nullptr, *positions = nullptr;  // [tokens]; sequences differ
  float* partials = nullptr;  // [tokens, heads, pieces, dim + 2]: sums, and the largest score and sum of weights
  std::int64_t tokens = 0, heads = 0, kv_heads = 0, dim = 0, all_sequences = 0, capacity = 0;
  std::int64_t pieces = 0;  // of the token with most keys
  float scale = 1;
};

struct DecodeKernels {
  // Two kernels. The first stores each token's key and value in the memory and attends to a piece of its sequence's
  // keys, all query heads of a key's head together (Dao et al., "Flash-Decoding for long-context inference", 2023); the
  // second joins the pieces in their order, so that a token's bits depend on its own sequence alone. Scores, weights
  // and sums are in fp32. Bytes: the tokens' keys and values once, 4 · (dim + 2) twice per head and piece; FLOPs: 4 ·
  // dim per key and query head.
  void (*attend)(const DecodeArguments& arguments, void* stream);
};

// Defined where kernels/cuda/attention/decode.cu is compiled.
extern const DecodeKernels cuda_decode_kernels;

}  // namespace llmtrain::kernels
