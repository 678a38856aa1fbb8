// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/flash_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <algorithm>
#include <cstdint>
#include <type_traits>
#include <vector>

#include "kernels/attention/attention_loops.h"
#include "kernels/onednn/matmul.h"
#include "kernels/vector/conversion.h"
#include "kernels/vector/level.h"
#include "kernels/vector/products/attention.h"

namespace llmtrain::kernels {
namespace {

// A thread holds query_block × S scores. A smaller block skips more of the masked keys, a larger one makes its matrix
// products larger.
constexpr std::int64_t query_block = 128;

template <class Value>
constexpr MatmulElement element = std::is_same_v<Value, float> ? MatmulElement::fp32 : MatmulElement::bf16;

// One head of a [B, S, heads, D] view: rows of D elements, `stride` apart.
template <class Value>
struct Head {
  Value* data;
  std::int64_t stride;

  Value* row(std::int64_t token) const { return data + token * stride; }
};

template <class Value>
Head<Value> head_of(const at::Tensor& x, std::int64_t batch, std::int64_t head) {
  // A const tensor's data is writable, so one type serves inputs and outputs.
  return {static_cast<Value*>(x.data_ptr()) + batch * x.stride(0) + head * x.stride(2), x.stride(1)};
}

// A row-major matrix in memory, or its transpose.
template <class Value>
MatmulOperand rows(const Value* data, std::int64_t stride) {
  return {data, stride, 1};
}
template <class Value>
MatmulOperand columns(const Value* data, std::int64_t stride) {
  return {data, 1, stride};
}

struct Shape {
  std::int64_t m, n, k;
};

template <class Value, class Result>
void multiply(const Shape& shape, const MatmulOperand& left, const MatmulOperand& right, Result* destination,
              std::int64_t row_stride, bool accumulate = false) {
  MatmulProblem problem;
  problem.m = shape.m;
  problem.n = shape.n;
  problem.k = shape.k;
  problem.operand_element = element<Value>;
  problem.destination_element = element<Result>;
  problem.accumulate = accumulate;
  problem.left = left;
  problem.right = right;
  problem.destination = destination;
  problem.destination_row_stride = row_stride;
  onednn_matmul(problem);
}

// Consecutive queries: from row `first_row` of the query tensor, at the positions that `scores` gives, which counts the
// keys from `first_key` on.
struct QueryBlock {
  std::int64_t first_row;
  std::int64_t first_key;
  vector::ScoreBlock scores;
};

std::vector<QueryBlock> blocks_of(const AttentionCall& call, const at::Tensor& query, std::int64_t keys) {
  const auto scale = static_cast<float>(call.scale_of(query.size(3)));
  const std::int64_t window = call.window.value_or(vector::unlimited_window);
  std::vector<QueryBlock> blocks;
  std::int64_t row = 0;
  for (const PositionRun& run : call.queries.runs_of(query.size(1))) {
    for (std::int64_t offset = 0; offset < run.length; offset += query_block) {
      const std::int64_t count = std::min(query_block, run.length - offset), first = run.begin + offset;
      // A block's last query sees the latest key, and the first one the earliest: others need not be multiplied.
      // Queries behind all keys see all of them.
      const std::int64_t first_key = std::max<std::int64_t>(0, first + 1 - window);
      blocks.push_back(call.is_causal ? QueryBlock{row + offset,
                                                   first_key,
                                                   {count, first + count - first_key, first - first_key, scale, window}}
                                      : QueryBlock{row + offset, 0, {count, keys, keys, scale}});
    }
    row += run.length;
  }
  return blocks;
}

template <class Value>
AttentionOutput forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                        const AttentionCall& call) {
  const auto batch = query.size(0), query_rows = query.size(1), heads = query.size(2), dim = query.size(3);
  const auto group = heads / key.size(2);
  const auto blocks = blocks_of(call, query, key.size(1));
  const auto count = static_cast<std::int64_t>(blocks.size());
  AttentionOutput output{at::empty(query.sizes(), query.options()),
                         at::empty({batch, heads, query_rows}, query.options().dtype(at::kFloat))};
  float* log_sum_exp = output.statistics.data_ptr<float>();
  // One task per sample, head and block of queries. Each writes rows of its own, so the result does not depend on the
  // number of threads. The scratch memory fits the longest block and is allocated once per range of tasks.
  at::parallel_for(0, batch * heads * count, 1, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scores(static_cast<std::size_t>(query_block * key.size(1)));
    std::vector<Value> rounded(std::is_same_v<Value, float> ? 0 : scores.size());
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t b = task / count / heads, h = task / count % heads;
      const auto& [first, first_key, block] = blocks[static_cast<std::size_t>(task % count)];
      const auto q = head_of<Value>(query, b, h), k = head_of<Value>(key, b, h / group);
      const auto v = head_of<Value>(value, b, h / group), out = head_of<Value>(output.out, b, h);
      multiply<Value>({block.queries, block.keys, dim}, rows(q.row(first), q.stride),
                      columns(k.row(first_key), k.stride), scores.data(), block.keys);
      // In fp32 the probabilities replace the scores; bf16 needs memory of its own.
      Value* probabilities = rounded.data();
      if constexpr (std::is_same_v<Value, float>) probabilities = scores.data();
      attention_loops<Value>().softmax(block, scores.data(), probabilities,
                                       log_sum_exp + (b * heads + h) * query_rows + first);
      multiply<Value>({block.queries, dim, block.keys}, rows(probabilities, block.keys),
                      rows(v.row(first_key), v.stride), out.row(first), out.stride);
    }
  });
  return output;
}

// Scratch memory of one thread's backward, reused for every block.
template <class Value>
struct BackwardScratch {
  explicit BackwardScratch(std::int64_t sequence, std::int64_t dim)
      : scores(static_cast<std::size_t>(query_block * sequence)),
        dprobabilities(scores.size()),
        rounded_probabilities(std::is_same_v<Value, float> ? 0 : scores.size()),
        rounded_score_gradients(rounded_probabilities.size()),
        dkey(static_cast<std::size_t>(sequence * dim)),
        dvalue(dkey.size()),
        delta(static_cast<std::size_t>(query_block)) {}

  // fp32 results may replace their inputs (vector::AttentionLoops); bf16 ones have another size.
  Value* probabilities() {
    if constexpr (std::is_same_v<Value, float>)
      return scores.data();
    else
      return rounded_probabilities.data();
  }
  Value* score_gradients() {
    if constexpr (std::is_same_v<Value, float>)
      return dprobabilities.data();
    else
      return rounded_score_gradients.data();
  }

  std::vector<float> scores, dprobabilities;
  std::vector<Value> rounded_probabilities, rounded_score_gradients;
  std::vector<float> dkey, dvalue;  // [S, D] sums
  std::vector<float> delta;
};

// The tensors of one query head's backward.
template <class Value>
struct BackwardHead {
  Head<Value> query, key, value, out, dout, dquery;
  const float* log_sum_exp;
  std::int64_t dim;
};

// Adds one block of queries to dkey and dvalue, and writes its dquery.
template <class Value>
void backward_block(const QueryBlock& queries, const BackwardHead<Value>& head, BackwardScratch<Value>& scratch) {
  const auto& [first, first_key, block] = queries;
  const std::int64_t dim = head.dim;
  const Shape by_keys{block.queries, block.keys, dim}, by_dim{block.queries, dim, block.keys};
  const Shape sums{block.keys, dim, block.queries};
  // Σ p·dp of a query equals Σ dout·out, so the softmax's gradient takes no pass over the keys (arXiv 2205.14135,
  // appendix B.2).
  for (std::int64_t i = 0; i < block.queries; ++i)
    scratch.delta[static_cast<std::size_t>(i)] =
        attention_loops<Value>().dot(head.dout.row(first + i), head.out.row(first + i), dim);
  // The scores are computed again: keeping them would take S × S memory.
  multiply<Value>(by_keys, rows(head.query.row(first), head.query.stride),
                  columns(head.key.row(first_key), head.key.stride), scratch.scores.data(), block.keys);
  multiply<Value>(by_keys, rows(head.dout.row(first), head.dout.stride),
                  columns(head.value.row(first_key), head.value.stride), scratch.dprobabilities.data(), block.keys);
  attention_loops<Value>().softmax_backward(block, scratch.scores.data(), head.log_sum_exp + first,
                                            scratch.dprobabilities.data(), scratch.delta.data(),
                                            scratch.probabilities(), scratch.score_gradients());
  // dvalue += pᵀ · dout and dkey += dscoresᵀ · query, in fp32 over all blocks; a block's dquery is complete at once.
  multiply<Value>(sums, columns(scratch.probabilities(), block.keys), rows(head.dout.row(first), head.dout.stride),
                  scratch.dvalue.data() + first_key * dim, dim, true);
  multiply<Value>(sums, columns(scratch.score_gradients(), block.keys), rows(head.query.row(first), head.query.stride),
                  scratch.dkey.data() + first_key * dim, dim, true);
  multiply<Value>(by_dim, rows(scratch.score_gradients(), block.keys), rows(head.key.row(first_key), head.key.stride),
                  head.dquery.row(first), head.dquery.stride);
}

template <class Value>
void store_sums(const std::vector<float>& sums, const Head<Value>& destination, std::int64_t sequence,
                std::int64_t dim) {
  // Rounded to the gradient's type once, after every query head and block has been added.
  static const auto conversion = vector::at_level([]<int level> { return vector::conversion_loops_for<level>(); });
  for (std::int64_t t = 0; t < sequence; ++t) {
    const float* row = sums.data() + t * dim;
    if constexpr (std::is_same_v<Value, float>) {
      std::copy_n(row, dim, destination.row(t));
    } else {
      conversion.round(row, destination.row(t), dim);
    }
  }
}

template <class Value>
AttentionGradients backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                            const at::Tensor& value, const AttentionOutput& saved, const AttentionCall& call) {
  const auto batch = query.size(0), query_rows = query.size(1), heads = query.size(2), dim = query.size(3);
  const auto kv_heads = key.size(2), group = heads / kv_heads;
  const auto sequence = key.size(1);
  const auto blocks = blocks_of(call, query, key.size(1));
  // Contiguous, whatever the strides of the inputs are: at::empty_like() would keep them.
  const auto fresh = [](const at::Tensor& x) { return at::empty(x.sizes(), x.options()); };
  AttentionGradients gradients{fresh(query), fresh(key), fresh(value)};
  const float* log_sum_exp = saved.statistics.data_ptr<float>();
  // One task per key and value head rather than per block: all query heads of its group and all their blocks add to the
  // same dkey and dvalue, in this order, without atomic operations.
  at::parallel_for(0, batch * kv_heads, 1, [&](std::int64_t begin, std::int64_t end) {
    BackwardScratch<Value> scratch(sequence, dim);
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t b = task / kv_heads, kv = task % kv_heads;
      std::fill(scratch.dkey.begin(), scratch.dkey.end(), 0.0F);
      std::fill(scratch.dvalue.begin(), scratch.dvalue.end(), 0.0F);
      for (std::int64_t h = kv * group; h < (kv + 1) * group; ++h) {
        const BackwardHead<Value> head{head_of<Value>(query, b, h),
                                       head_of<Value>(key, b, kv),
                                       head_of<Value>(value, b, kv),
                                       head_of<Value>(saved.out, b, h),
                                       head_of<Value>(dout, b, h),
                                       head_of<Value>(gradients.query, b, h),
                                       log_sum_exp + (b * heads + h) * query_rows,
                                       dim};
        for (const QueryBlock& block : blocks) backward_block(block, head, scratch);
      }
      store_sums(scratch.dkey, head_of<Value>(gradients.key, b, kv), sequence, dim);
      store_sums(scratch.dvalue, head_of<Value>(gradients.value, b, kv), sequence, dim);
    }
  });
  return gradients;
}

}  // namespace

bool has_cpu_flash_attention(const at::Tensor& query) {
  const auto type = query.scalar_type();
  // The loops above are built on oneDNN's products; without it, and for other types, LibTorch's kernel takes over.
  return query.is_cpu() && (type == at::kFloat || type == at::kBFloat16) && has_onednn();
}

AttentionOutput cpu_flash_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                            const AttentionCall& call) {
  return query.scalar_type() == at::kFloat ? forward<float>(query, key, value, call)
                                           : forward<std::uint16_t>(query, key, value, call);
}

AttentionGradients cpu_flash_attention_backward(const at::Tensor& dout, const at::Tensor& query, const at::Tensor& key,
                                                const at::Tensor& value, const AttentionOutput& saved,
                                                const AttentionCall& call) {
  return query.scalar_type() == at::kFloat ? backward<float>(dout, query, key, value, saved, call)
                                           : backward<std::uint16_t>(dout, query, key, value, saved, call);
}

}  // namespace llmtrain::kernels
