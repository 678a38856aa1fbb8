// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cached_attention.h"

#include <ATen/Parallel.h>
#include <ATen/ops/_softmax.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/matmul.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <iterator>
#include <limits>
#include <optional>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "kernels/accumulation_type.h"
#include "kernels/attention/attention_loops.h"
#include "kernels/attention/cache_blocks.h"
#include "kernels/attention/cuda_decode.h"
#include "kernels/separate_rows.h"
#include "kernels/vector/products/attention.h"
#include "kernels/vector_dispatch.h"

namespace llmtrain::kernels {
namespace {

// Any number of tokens of one sequence, through the kernels of whole sequences.
void attend(const TokenStretch& stretch, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
            KeyValueMemory& memory, const CacheBlocks& blocks, const CachedAttentionCall& how, const at::Tensor& out) {
  const std::int64_t begin = stretch.first.position, end = begin + stretch.length;
  const auto held = [&](const at::Tensor& all, const at::Tensor& scales) {
    return blocks.held(stretch.first.sequence, end, all, scales, query.scalar_type()).unsqueeze(0);
  };
  const auto rows = [&](const at::Tensor& x) { return x.narrow(0, stretch.row, stretch.length); };
  blocks.store(stretch, key, memory.key, memory.key_scales);
  blocks.store(stretch, value, memory.value, memory.value_scales);
  AttentionCall call{how.method, {}, {end, {{begin, stretch.length}}}};
  call.window = how.window;
  call.scale = how.scale;
  call.sinks = how.sinks;
  if (how.bias.defined()) {
    call.method = AttentionMethod::math;
    call.bias = how.bias.narrow(1, stretch.row, stretch.length).narrow(2, 0, end);
  }
  const at::Tensor keys = held(memory.key, memory.key_scales), values = held(memory.value, memory.value_scales);
  rows(out).copy_(attention_forward(rows(query).unsqueeze(0), keys, values, call).out.squeeze(0));
}

std::int64_t longest_of(const std::vector<TokenStretch>& tokens) {
  std::int64_t longest = 0;
  for (const TokenStretch& token : tokens) longest = std::max(longest, token.first.position + 1);
  return longest;
}

// Stores a token's key or value of one head.
template <class Value, class Stored>
void store_row(const Value* row, std::int64_t dim, Stored* place, float* scale) {
  if constexpr (std::is_same_v<Stored, Value>)
    std::copy_n(row, dim, place);
  else
    attention_loops<Value>().template of_rows<Stored>().quantize(row, dim, place, *scale);
}

// The keys and values of one head that a token sees, block by block, and some before them that it does not: blocks'
// keys are counted in fours from the sequence's beginning, so that sums do not depend on the window's.
template <class Stored>
struct SeenKeys {
  std::vector<vector::KeyRun<Stored>> runs;
  std::int64_t count = 0, unseen = 0;

  void find(const CachePlace& place, const KeyValueMemory& memory, const CacheBlocks& blocks, std::int64_t head,
            const std::optional<std::int64_t>& window) {
    runs.clear();
    const std::int64_t end = place.position + 1, seen = std::min(end, window.value_or(end));
    unseen = (end - seen) % 4;
    count = seen + unseen;
    for (std::int64_t position = end - count; position < end;) {
      const std::int64_t offset = position % blocks.size(), length = std::min(blocks.size() - offset, end - position);
      const std::int64_t block = blocks.of(place.sequence, position);
      vector::KeyRun<Stored>& run = runs.emplace_back();
      run = {row_of<Stored>(memory.key, block, head, offset), row_of<Stored>(memory.value, block, head, offset),
             length};
      if (memory.is_scaled()) {
        run.key_scales = row_of<float>(memory.key_scales, block, head, offset);
        run.value_scales = row_of<float>(memory.value_scales, block, head, offset);
      }
      position += length;
    }
  }
};

template <class Value, class Stored>
void attend_to(const vector::SingleQuery<Value, Stored>& single) {
  if constexpr (std::is_same_v<Stored, Value>)
    attention_loops<Value>().attend(single);
  else
    attention_loops<Value>().template of_rows<Stored>().attend(single);
}

// Single tokens, whose keys and values are stored here or, where several are of one sequence, have been. Matrix
// products would be of one row, and of another shape with every token; oneDNN would generate code for each. The loop
// reads every key and value once.
template <class Value, class Stored>
void attend_singly(const std::vector<TokenStretch>& tokens, const at::Tensor& query, const at::Tensor& key,
                   const at::Tensor& value, KeyValueMemory& memory, const CacheBlocks& blocks,
                   const CachedAttentionCall& call, bool are_stored, const at::Tensor& out) {
  const std::int64_t heads = query.size(1), dim = query.size(2), kv_heads = key.size(1), group = heads / kv_heads;
  const auto at = [&](const at::Tensor& x, std::int64_t row, std::int64_t head) {
    return static_cast<Value*>(x.data_ptr()) + row * x.stride(0) + head * x.stride(1);
  };
  const auto scale = static_cast<float>(call.scale.value_or(attention_scale(dim)));
  const at::Tensor sinks = call.sinks.defined() ? call.sinks.to(at::kFloat) : call.sinks;
  const at::Tensor bias = call.bias.defined() ? call.bias.to(at::kFloat).contiguous() : call.bias;
  // Where a head's biases of the row's keys begin.
  const auto bias_at = [&](std::int64_t row, std::int64_t h) {
    return bias.const_data_ptr<float>() + (h * bias.size(1) + row) * bias.size(2);
  };
  constexpr float no_sink = -std::numeric_limits<float>::infinity();
  const std::int64_t longest = std::min(longest_of(tokens), call.window.value_or(longest_of(tokens)) + 3);
  // Below this many multiplications a second thread costs more time than it saves.
  constexpr std::int64_t worth_a_thread = 1 << 16;
  // Keys and values each take up to longest · dim multiplications per query head.
  const std::int64_t grain = std::max<std::int64_t>(1, worth_a_thread / (2 * longest * dim * group));
  const auto tasks = static_cast<std::int64_t>(tokens.size()) * kv_heads;
  // By key and value head: one thread writes the new key before any query head of its group reads it, and the heads of
  // a group find the keys in the cache.
  at::parallel_for(0, tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scratch(static_cast<std::size_t>(longest + 2 * dim));
    SeenKeys<Stored> seen;
    for (std::int64_t task = begin; task < end; ++task) {
      const TokenStretch& token = tokens[static_cast<std::size_t>(task / kv_heads)];
      const std::int64_t head = task % kv_heads, offset = token.first.position % blocks.size();
      const std::int64_t block = blocks.of(token.first.sequence, token.first.position);
      const auto keep = [&](const at::Tensor& rows, const at::Tensor& all, const at::Tensor& scales) {
        float* const row_scale = scales.defined() ? row_of<float>(scales, block, head, offset) : nullptr;
        store_row(at(rows, token.row, head), dim, row_of<Stored>(all, block, head, offset), row_scale);
      };
      if (!are_stored) {
        keep(key, memory.key, memory.key_scales);
        keep(value, memory.value, memory.value_scales);
      }
      seen.find(token.first, memory, blocks, head, call.window);
      for (std::int64_t h = head * group; h < (head + 1) * group; ++h)
        attend_to(vector::SingleQuery<Value, Stored>{
            .query = at(query, token.row, h),
            .runs = seen.runs.data(),
            .run_count = std::ssize(seen.runs),
            .count = seen.count,
            .unseen = seen.unseen,
            .dim = dim,
            .scale = scale,
            .sink = sinks.defined() ? sinks.const_data_ptr<float>()[h] : no_sink,
            .bias = bias.defined() ? bias_at(token.row, h) + token.first.position + 1 - seen.count : nullptr,
            .scratch = scratch.data(),
            .out = at(out, token.row, h)});
    }
  });
}

std::vector<TokenStretch> single_tokens(const std::vector<TokenStretch>& stretches) {
  std::vector<TokenStretch> singles;
  for (const TokenStretch& stretch : stretches)
    for (std::int64_t i = 0; i < stretch.length; ++i)
      singles.push_back({stretch.row + i, 1, {stretch.first.sequence, stretch.first.position + i}});
  return singles;
}

// Whether tokens that are to be treated apart are few: then the loop of single tokens, whose bits are those of whole
// sequences with rows apart, spares a copy of all keys. Of keys in bytes those have other bits.
bool are_few_apart(const std::vector<TokenStretch>& stretches, const at::Tensor& query) {
  constexpr std::int64_t few = 32;
  return separates_rows() && query.is_cpu() &&
         std::ranges::all_of(stretches, [](const TokenStretch& stretch) { return stretch.length <= few; });
}

// Keys that a product on a GPU takes: the longest sequence's, in steps, so that the shapes change seldom.
std::int64_t keys_of_pass(const std::vector<TokenStretch>& tokens, const KeyValueMemory& memory) {
  constexpr std::int64_t step = 64;
  return std::min((longest_of(tokens) + step - 1) / step * step, memory.key.size(2));
}

// The first `length` keys or values of the tokens' sequences, [tokens, kv_heads, length, D]: no copy where these are
// side by side.
at::Tensor held_by(const std::vector<TokenStretch>& tokens, const at::Tensor& all, std::int64_t length,
                   const at::Tensor& sequences) {
  const at::Tensor held = all.narrow(2, 0, length);
  const std::int64_t first = tokens.front().first.sequence, count = std::ssize(tokens);
  for (std::int64_t i = 0; i < count; ++i)
    if (tokens[static_cast<std::size_t>(i)].first.sequence != first + i) return held.index_select(0, sequences);
  return held.narrow(0, first, count);
}

// One token of each sequence on a GPU, whose rows are the first: products over all sequences, with the keys that a
// token does not see left out by −∞. Scores and softmax in fp32 at least, as with attention_forward()'s math.
void attend_together(const std::vector<TokenStretch>& stretches, const at::Tensor& query, const at::Tensor& key,
                     const at::Tensor& value, CachedTokens& tokens, KeyValueMemory& memory, double scale,
                     const at::Tensor& out) {
  const std::int64_t count = std::ssize(stretches), kv_heads = key.size(1), dim = query.size(2);
  const std::int64_t group = query.size(1) / kv_heads, length = keys_of_pass(stretches, memory);
  const auto rows = [count](const at::Tensor& x) { return x.narrow(0, 0, count); };
  const at::Tensor sequences = rows(tokens.sequences), positions = rows(tokens.positions);
  const c10::List<std::optional<at::Tensor>> place({sequences, std::nullopt, positions});
  memory.key.index_put_(place, rows(key));
  memory.value.index_put_(place, rows(value));
  if (!tokens.unseen.defined())
    tokens.unseen = at::arange(length, positions.options()).gt(positions.unsqueeze(1)).view({count, 1, 1, length});
  const at::Tensor keys = held_by(stretches, memory.key, length, sequences);
  const at::Tensor values = held_by(stretches, memory.value, length, sequences);
  at::Tensor scores = at::matmul(rows(query).reshape({count, kv_heads, group, dim}), keys.transpose(2, 3))
                          .to(accumulation_type(query))
                          .mul_(scale);
  scores.masked_fill_(tokens.unseen, -std::numeric_limits<double>::infinity());
  const at::Tensor probabilities = at::_softmax(scores, 3, false).to(query.scalar_type());
  rows(out).copy_(at::matmul(probabilities, values).reshape({count, query.size(1), dim}));
}

bool are_first(const std::vector<TokenStretch>& stretches) {
  return !stretches.empty() && stretches.back().row + stretches.back().length == std::ssize(stretches);
}

}  // namespace

at::Tensor cached_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            CachedTokens& tokens, KeyValueMemory& memory, const CachedAttentionCall& call) {
  if (!query.is_cpu() && (call.window || call.sinks.defined()))
    throw Error(ExitCode::internal_error, "cached attention: windows and sinks are of processors");
  if (!query.is_cpu() && !tokens.blocks.empty())
    throw Error(ExitCode::internal_error, "cached attention: tables of blocks are of processors");
  if (!query.is_cpu() && memory.is_scaled())
    throw Error(ExitCode::internal_error, "cached attention: keys and values of bytes are of processors");
  const CacheBlocks blocks(tokens, memory);
  const std::vector<TokenStretch> stretches = stretches_of(tokens.places);
  const bool singly =
      std::all_of(stretches.begin(), stretches.end(), [](const TokenStretch& s) { return s.length == 1; });
  const double scale = call.scale.value_or(attention_scale(query.size(2)));
  std::int64_t covered = 0;
  for (const TokenStretch& stretch : stretches) covered += stretch.length;
  const at::Tensor out =
      covered == query.size(0) ? at::empty(query.sizes(), query.options()) : at::zeros(query.sizes(), query.options());
  if ((singly || are_few_apart(stretches, query)) && has_vector_type(query)) {
    for (const TokenStretch& stretch : singly ? std::vector<TokenStretch>() : stretches) {
      blocks.store(stretch, key, memory.key, memory.key_scales);
      blocks.store(stretch, value, memory.value, memory.value_scales);
    }
    const std::vector<TokenStretch> singles = single_tokens(stretches);
    with_element_of(query, [&]<class Element> {
      with_stored_type<Element>(memory, [&]<class Stored> {
        attend_singly<Element, Stored>(singles, query, key, value, memory, blocks, call, !singly, out);
      });
    });
  } else if (call.bias.defined()) {
    for (const TokenStretch& stretch : stretches) attend(stretch, query, key, value, memory, blocks, call, out);
  } else if (singly && are_first(stretches) && has_cuda_decode(query, memory)) {
    cuda_decode(query, key, value, tokens, memory, std::ssize(stretches), longest_of(stretches), scale, out);
  } else if (singly && !query.is_cpu() && are_first(stretches)) {
    attend_together(stretches, query, key, value, tokens, memory, scale, out);
  } else {
    for (const TokenStretch& stretch : stretches) attend(stretch, query, key, value, memory, blocks, call, out);
  }
  return out;
}

}  // namespace llmtrain::kernels
