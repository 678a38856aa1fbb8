// SPDX-License-Identifier: Apache-2.0
// The kernels of a GPU that assign rows to choices of experts (kernels/moe/expert_rows.h), with raw pointers to
// contiguous device memory. LibTorch and CUDA are not needed here.
#pragma once

#include <algorithm>
#include <cstdint>

namespace llmtrain::kernels {

struct AssignRowsArguments {
  const std::int64_t* chosen = nullptr;  // [tokens, choices]: experts; negative: none
  const std::int64_t* order = nullptr;   // [tokens]: tokens as they are served, or null: in their order
  std::int64_t tokens = 0;               // tokens · choices: fewer than 2³¹
  int choices = 0;                       // of a token
  int experts = 0;                       // at most most_assigned_experts
  std::int64_t most = 0;                 // rows of an expert
  std::int64_t rows = 0;                 // of all
  int* counts = nullptr;                 // scratch, assigned_counts() numbers
  int* ends = nullptr;                   // [experts]
  std::int64_t* row_of = nullptr;        // [tokens, choices]
  std::int64_t* choice_of = nullptr;     // [rows]; 0 of rows without a choice
};

constexpr int most_assigned_experts = 4096;

// Choices that a block takes: pieces whose numbers all blocks can add up are few.
inline std::int64_t choices_of_piece(std::int64_t choices) {
  constexpr std::int64_t least = 512, most_pieces = 256;
  return std::max(least, (choices + most_pieces - 1) / most_pieces);
}

// At least one piece, so that there are ends without any choice.
inline std::int64_t choice_pieces(std::int64_t choices) {
  return std::max<std::int64_t>(1, (choices + choices_of_piece(choices) - 1) / choices_of_piece(choices));
}

inline std::int64_t assigned_counts(std::int64_t choices, std::int64_t experts) {
  return choice_pieces(choices) * experts;
}

struct ExpertRowKernels {
  // Two kernels: how often each piece of the choices names each expert, and the rows. Bytes: choices twice, rows once.
  void (*assign)(const AssignRowsArguments& arguments, void* stream);
};

// Defined where kernels/moe/expert_rows_cuda.cu is compiled.
extern const ExpertRowKernels cuda_expert_row_kernels;

}  // namespace llmtrain::kernels
