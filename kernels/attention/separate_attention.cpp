// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/separate_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/empty.h>

#include <algorithm>
#include <cstdint>
#include <limits>
#include <vector>

#include "kernels/attention/attention_loops.h"
#include "kernels/attention/math_attention.h"
#include "kernels/vector/products/attention.h"
#include "kernels/vector_dispatch.h"

namespace llmtrain::kernels {
namespace {

// The position of each query.
std::vector<std::int64_t> positions_of_queries(const AttentionCall& call, std::int64_t queries) {
  std::vector<std::int64_t> positions;
  for (const PositionRun& run : call.queries.runs_of(queries))
    for (std::int64_t i = 0; i < run.length; ++i) positions.push_back(run.begin + i);
  return positions;
}

// Keys and values, whose rows the loop wants one after another, [B, kv_heads, S, D].
struct SeparateOperands {
  at::Tensor query, key, value;
  at::Tensor sinks, bias;  // fp32, or undefined
};

template <class Value>
void attend_rows(const SeparateOperands& x, const AttentionCall& call, const AttentionOutput& output) {
  const std::int64_t batch = x.query.size(0), queries = x.query.size(1), heads = x.query.size(2), dim = x.query.size(3);
  const std::int64_t kv_heads = x.key.size(1), keys = x.key.size(2), group = heads / kv_heads;
  const std::vector<std::int64_t> positions = positions_of_queries(call, queries);
  const auto scale = static_cast<float>(call.scale_of(dim));
  const auto* key = elements<Value>(x.key);
  const auto* value = elements<Value>(x.value);
  auto* out = mutable_elements<Value>(output.out);
  auto* log_sum_exp = output.statistics.mutable_data_ptr<float>();
  at::parallel_for(0, batch * heads * queries, 16, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scratch(static_cast<std::size_t>(keys + dim));
    for (std::int64_t task = begin; task < end; ++task) {
      const std::int64_t b = task / queries / heads, h = task / queries % heads, row = task % queries;
      const std::int64_t last = positions[static_cast<std::size_t>(row)] + 1;
      const std::int64_t seen = std::min(last, call.window.value_or(last));
      // Keys are summed in fours, counted from the sequence's beginning, so that a window does not change their order.
      const std::int64_t unseen = (last - seen) % 4, first = last - seen - unseen;
      const std::int64_t offset = ((b * kv_heads + h / group) * keys + first) * dim;
      const vector::KeyRun<Value> run{key + offset, value + offset, last - first};
      attention_loops<Value>().attend(
          {.query = elements<Value>(x.query) + b * x.query.stride(0) + row * x.query.stride(1) + h * x.query.stride(2),
           .runs = &run,
           .run_count = 1,
           .count = run.count,
           .unseen = unseen,
           .dim = dim,
           .scale = scale,
           .sink = x.sinks.defined() ? x.sinks.const_data_ptr<float>()[h] : -std::numeric_limits<float>::infinity(),
           .bias = x.bias.defined() ? x.bias.const_data_ptr<float>() + (h * queries + row) * keys + first : nullptr,
           .scratch = scratch.data(),
           .out = out + ((b * queries + row) * heads + h) * dim,
           .log_sum_exp = log_sum_exp + (b * heads + h) * queries + row});
    }
  });
}

at::Tensor in_floats(const at::Tensor& x) { return x.defined() ? x.to(at::kFloat).contiguous() : x; }

}  // namespace

bool has_separate_attention(const at::Tensor& query, const at::Tensor& value, const AttentionCall& call) {
  return has_vector_type(query) && call.is_causal && !call.dropout.active() && value.size(3) == query.size(3);
}

AttentionOutput separate_attention_forward(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                                           const AttentionCall& call) {
  AttentionOutput output{at::empty(query.sizes(), query.options()),
                         at::empty({query.size(0), query.size(2), query.size(1)}, query.options().dtype(at::kFloat))};
  const SeparateOperands operands{query, by_head(key).contiguous(), by_head(value).contiguous(), in_floats(call.sinks),
                                  in_floats(call.bias)};
  with_element_of(query, [&]<class Element> { attend_rows<Element>(operands, call, output); });
  // Its backward wants the probabilities, which the loop does not keep.
  if (call.method == AttentionMethod::math)
    output.statistics = math_attention_forward(query, key, value, call).statistics;
  return output;
}

}  // namespace llmtrain::kernels
