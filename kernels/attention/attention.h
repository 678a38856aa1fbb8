// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cmath>
#include <cstdint>
#include <optional>

#include "kernels/attention/row_documents.h"
#include "kernels/random/dropout.h"
#include "kernels/sequence_part.h"

namespace llmtrain::kernels {

// Attention of queries to keys, grouped queries allowed (Ainslie et al., arXiv 2305.13245).
// query is a view [B, S_q, heads, D]; key and value [B, S, kv_heads, D]; head h reads kv head h / (heads / kv_heads).
// The last axis is contiguous. Keys and values are those of whole sequences; the queries may be a part of theirs.
enum class AttentionMethod {
  flash,  // never holds the S × S matrix (Dao et al., arXiv 2205.14135)
  math,   // holds probabilities [B, heads, S_q, S]; the only method with dropout and bias
};

// What products of queries and keys are multiplied with, unless a call says otherwise.
inline double attention_scale(std::int64_t head_dim) { return 1.0 / std::sqrt(static_cast<double>(head_dim)); }

constexpr std::int64_t longest_cudnn_head = 128;  // elements; longer ones only on some GPUs

// Which keys each query sees, and how. By default causal self-attention within sequences.
struct AttentionCall {
  AttentionMethod method = AttentionMethod::flash;
  Dropout dropout{};       // of the probabilities, elements of [all B, heads, S_q of the whole, S]; not with documents
  SequencePart queries{};  // the positions of the queries in their sequences
  // A query sees the keys of its own document alone; the work is that of the documents' lengths. Padding is a document
  // of its own, which nothing else sees. Without runs each sequence is one document. The runs outlive the call.
  RowDocuments documents{};
  // A query sees the keys up to its own position; the keys are of the queries' sequences then. Otherwise it sees all
  // keys, which may be of other rows, such as an encoder's: in sequences of another length.
  bool is_causal = true;
  // How many keys a query of causal attention sees, up to its own (Beltagy et al., arXiv 2004.05150); none: all. On the
  // CPU, and of the math path.
  std::optional<std::int64_t> window{};
  // The documents of the keys where these are of other rows: as many as `documents`, and those of one document see
  // those of the same number. One of no rows stands for what has no partner: its queries get zeros. Without runs:
  // `documents`.
  RowDocuments key_documents{};
  // Added to the scaled scores, [heads, S_q, S] of any floating type, by the places of query and key in their
  // sequences: learned distances (Raffel et al., arXiv 1910.10683) or fixed ones (Press et al., arXiv 2108.12409).
  at::Tensor bias{};
  // A further logit of each query's softmax, [heads] of any floating type, whose share goes nowhere (OpenAI, arXiv
  // 2508.10925). Without documents on a GPU.
  at::Tensor sinks{};
  std::optional<double> scale{};  // of the products of queries and keys; none: attention_scale()
  // Flash attention by cuDNN's kernel, whose last bits may differ from call to call: on a GPU, of whole sequences, in
  // 16 bits, with heads of at most longest_cudnn_head elements.
  bool by_cudnn = false;

  double scale_of(std::int64_t head_dim) const { return scale.value_or(attention_scale(head_dim)); }
  const RowDocuments& documents_of_keys() const { return key_documents.runs.empty() ? documents : key_documents; }
};

struct AttentionOutput {
  at::Tensor out;  // [B, S_q, heads, D], contiguous
  // For the backward. flash: log-sum-exp [B, heads, S_q], with that of sinks; math: probabilities [B, heads, S_q, S]
  // before dropout. With documents those of each document's queries one after another, or in the layout of a GPU's
  // kernel.
  at::Tensor statistics;
};

struct AttentionGradients {
  at::Tensor query, key, value;  // shaped as the inputs; of keys and values only what these queries contribute
  at::Tensor bias{};             // [heads, S_q, S], summed over the sequences in fp32 at least; undefined without one
  at::Tensor sinks{};            // [heads], in fp32 at least; undefined without them
};

// Both throw Error(internal_error) for a call that has no meaning, or none by its method. On a GPU flash attention of
// documents is one call for all where their queries are whole.
AttentionOutput attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                  const AttentionCall& call);

AttentionGradients attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                      const at::Tensor& value, const AttentionOutput& saved, const AttentionCall& call);

}  // namespace llmtrain::kernels
