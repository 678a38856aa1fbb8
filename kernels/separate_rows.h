// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace llmtrain::kernels {

// While one lives, what kernels on this thread compute of a row, a token, has the bits that it has alone, whatever rows
// are beside it: a library's order of summation depends on their number. That holds of linear() and group_linear()
// (kernels/gemm.h), and of causal attention without dropout (kernels/attention): a token gets the same bits with the
// keys and values of the tokens before it in a cache and with whole sequences at hand. On the CPU, where nothing is
// quantised; in fp32 and bf16, and in fp16 as far as it is widened. Other kernels treat rows apart anyway. Meant for
// the few rows of texts that grow together, and for passes that must repeat their bits: a row costs as much arithmetic
// as the first, though the weights are read once. Backward passes are the libraries' as ever.
class SeparateRows {
 public:
  // Where `applies`; else nothing changes.
  explicit SeparateRows(bool applies);
  ~SeparateRows();
  SeparateRows(const SeparateRows&) = delete;
  SeparateRows& operator=(const SeparateRows&) = delete;

 private:
  bool before_;
};

// Whether one lives on this thread.
bool separates_rows();

}  // namespace llmtrain::kernels
