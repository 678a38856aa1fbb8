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
#include <span>
#include <string>
#include <type_traits>
#include <vector>

#include "core/base/error.h"
#include "kernels/accumulation_type.h"
#include "kernels/attention/cuda_decode.h"
#include "kernels/vector/level.h"
#include "kernels/vector/products/attention.h"
#include "kernels/vector_dispatch.h"

namespace llmtrain::kernels {
namespace {

// Adjacent rows of one sequence.
struct Stretch {
  std::int64_t row, length;
  CachePlace first;
};

std::vector<Stretch> stretches_of(std::span<const CachePlace> places) {
  std::vector<Stretch> result;
  for (std::size_t row = 0; row < places.size(); ++row) {
    const CachePlace& place = places[row];
    if (place.sequence < 0) continue;
    if (!result.empty()) {
      Stretch& last = result.back();
      if (last.first.sequence == place.sequence && last.first.position + last.length == place.position &&
          last.row + last.length == static_cast<std::int64_t>(row)) {
        ++last.length;
        continue;
      }
    }
    result.push_back({static_cast<std::int64_t>(row), 1, place});
  }
  return result;
}

void check_places(std::span<const CachePlace> places, const KeyValueMemory& memory) {
  for (const CachePlace& place : places) {
    if (place.sequence < memory.key.size(0) && place.position >= 0 && place.position < memory.key.size(2)) continue;
    throw Error(ExitCode::internal_error, "cached attention: no place for position " + std::to_string(place.position) +
                                              " of sequence " + std::to_string(place.sequence) + " in memory of " +
                                              std::to_string(memory.key.size(0)) + " sequences of " +
                                              std::to_string(memory.key.size(2)));
  }
}

// Any number of tokens of one sequence, through the kernels of whole sequences.
void attend(const Stretch& stretch, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
            KeyValueMemory& memory, const CachedAttentionCall& how, const at::Tensor& out) {
  const std::int64_t begin = stretch.first.position, end = begin + stretch.length;
  // [kv_heads, capacity, D] → [tokens, kv_heads, D]
  const auto held = [&](const at::Tensor& all, std::int64_t from) {
    return all.select(0, stretch.first.sequence).narrow(1, from, end - from).transpose(0, 1);
  };
  const auto rows = [&](const at::Tensor& x) { return x.narrow(0, stretch.row, stretch.length); };
  held(memory.key, begin).copy_(rows(key));
  held(memory.value, begin).copy_(rows(value));
  AttentionCall call{how.method, {}, {end, {{begin, stretch.length}}}};
  call.window = how.window;
  call.scale = how.scale;
  call.sinks = how.sinks;
  if (how.bias.defined()) {
    call.method = AttentionMethod::math;
    call.bias = how.bias.narrow(1, stretch.row, stretch.length).narrow(2, 0, end);
  }
  rows(out).copy_(attention_forward(rows(query).unsqueeze(0), held(memory.key, 0).unsqueeze(0),
                                    held(memory.value, 0).unsqueeze(0), call)
                      .out.squeeze(0));
}

// One token of each sequence. Matrix products would be of one row, and of another shape with every token; oneDNN would
// generate code for each. The loop reads every key and value once.
template <class Value>
void attend_singly(const std::vector<Stretch>& tokens, const at::Tensor& query, const at::Tensor& key,
                   const at::Tensor& value, KeyValueMemory& memory, const CachedAttentionCall& call,
                   const at::Tensor& out) {
  static const auto kernels = vector::at_level([]<int level> { return vector::attention_kernels_for<level>(); });
  const auto& loops = [&]() -> const vector::AttentionLoops<Value>& {
    if constexpr (std::is_same_v<Value, float>)
      return kernels.fp32;
    else
      return kernels.bf16;
  }();
  const std::int64_t heads = query.size(1), dim = query.size(2), kv_heads = key.size(1), group = heads / kv_heads;
  const auto at = [&](const at::Tensor& x, std::int64_t row, std::int64_t head) {
    return static_cast<Value*>(x.data_ptr()) + row * x.stride(0) + head * x.stride(1);
  };
  const auto seen_by = [&](const Stretch& token) {
    return std::min(token.first.position + 1, call.window.value_or(token.first.position + 1));
  };
  const auto scale = static_cast<float>(call.scale.value_or(attention_scale(dim)));
  const at::Tensor sinks = call.sinks.defined() ? call.sinks.to(at::kFloat) : call.sinks;
  const at::Tensor bias = call.bias.defined() ? call.bias.to(at::kFloat).contiguous() : call.bias;
  // Where a head's biases of the row's keys begin.
  const auto bias_at = [&](std::int64_t row, std::int64_t h) {
    return bias.const_data_ptr<float>() + (h * bias.size(1) + row) * bias.size(2);
  };
  constexpr float no_sink = -std::numeric_limits<float>::infinity();
  std::int64_t longest = 0;
  for (const Stretch& token : tokens) longest = std::max(longest, seen_by(token));
  // Below this many multiplications a second thread costs more time than it saves.
  constexpr std::int64_t worth_a_thread = 1 << 16;
  // Keys and values each take up to longest · dim multiplications per query head.
  const std::int64_t grain = std::max<std::int64_t>(1, worth_a_thread / (2 * longest * dim * group));
  const auto tasks = static_cast<std::int64_t>(tokens.size()) * kv_heads;
  // By key and value head: one thread writes the new key before any query head of its group reads it, and the heads of
  // a group find the keys in the cache.
  at::parallel_for(0, tasks, grain, [&](std::int64_t begin, std::int64_t end) {
    std::vector<float> scratch(static_cast<std::size_t>(longest + dim));
    for (std::int64_t task = begin; task < end; ++task) {
      const Stretch& token = tokens[static_cast<std::size_t>(task / kv_heads)];
      const std::int64_t head = task % kv_heads, position = token.first.position;
      Value* keys = at(memory.key, token.first.sequence, head);
      Value* values = at(memory.value, token.first.sequence, head);
      std::copy_n(at(key, token.row, head), dim, keys + position * dim);
      std::copy_n(at(value, token.row, head), dim, values + position * dim);
      const std::int64_t count = seen_by(token), first = position + 1 - count;
      for (std::int64_t h = head * group; h < (head + 1) * group; ++h)
        loops.attend({.query = at(query, token.row, h),
                      .keys = keys + first * dim,
                      .values = values + first * dim,
                      .count = count,
                      .dim = dim,
                      .scale = scale,
                      .sink = sinks.defined() ? sinks.const_data_ptr<float>()[h] : no_sink,
                      .bias = bias.defined() ? bias_at(token.row, h) + first : nullptr,
                      .scratch = scratch.data(),
                      .out = at(out, token.row, h)});
    }
  });
}

std::int64_t longest_of(const std::vector<Stretch>& tokens) {
  std::int64_t longest = 0;
  for (const Stretch& token : tokens) longest = std::max(longest, token.first.position + 1);
  return longest;
}

// Keys that a product on a GPU takes: the longest sequence's, in steps, so that the shapes change seldom.
std::int64_t keys_of_pass(const std::vector<Stretch>& tokens, const KeyValueMemory& memory) {
  constexpr std::int64_t step = 64;
  return std::min((longest_of(tokens) + step - 1) / step * step, memory.key.size(2));
}

// The first `length` keys or values of the tokens' sequences, [tokens, kv_heads, length, D]: no copy where these are
// side by side.
at::Tensor held_by(const std::vector<Stretch>& tokens, const at::Tensor& all, std::int64_t length,
                   const at::Tensor& sequences) {
  const at::Tensor held = all.narrow(2, 0, length);
  const std::int64_t first = tokens.front().first.sequence, count = std::ssize(tokens);
  for (std::int64_t i = 0; i < count; ++i)
    if (tokens[static_cast<std::size_t>(i)].first.sequence != first + i) return held.index_select(0, sequences);
  return held.narrow(0, first, count);
}

// One token of each sequence on a GPU, whose rows are the first: products over all sequences, with the keys that a
// token does not see left out by −∞. Scores and softmax in fp32 at least, as with attention_forward()'s math.
void attend_together(const std::vector<Stretch>& stretches, const at::Tensor& query, const at::Tensor& key,
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

bool are_first(const std::vector<Stretch>& stretches) {
  return !stretches.empty() && stretches.back().row + stretches.back().length == std::ssize(stretches);
}

}  // namespace

at::Tensor cached_attention(const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
                            CachedTokens& tokens, KeyValueMemory& memory, const CachedAttentionCall& call) {
  if (!query.is_cpu() && (call.window || call.sinks.defined()))
    throw Error(ExitCode::internal_error, "cached attention: windows and sinks are of processors");
  check_places(tokens.places, memory);
  const std::vector<Stretch> stretches = stretches_of(tokens.places);
  const bool singly = std::all_of(stretches.begin(), stretches.end(), [](const Stretch& s) { return s.length == 1; });
  const double scale = call.scale.value_or(attention_scale(query.size(2)));
  std::int64_t covered = 0;
  for (const Stretch& stretch : stretches) covered += stretch.length;
  const at::Tensor out =
      covered == query.size(0) ? at::empty(query.sizes(), query.options()) : at::zeros(query.sizes(), query.options());
  if (singly && has_vector_type(query)) {
    with_element_of(query,
                    [&]<class Element> { attend_singly<Element>(stretches, query, key, value, memory, call, out); });
  } else if (call.bias.defined()) {
    for (const Stretch& stretch : stretches) attend(stretch, query, key, value, memory, call, out);
  } else if (singly && are_first(stretches) && has_cuda_decode(query, memory)) {
    cuda_decode(query, key, value, tokens, memory, std::ssize(stretches), longest_of(stretches), scale, out);
  } else if (singly && !query.is_cpu() && are_first(stretches)) {
    attend_together(stretches, query, key, value, tokens, memory, scale, out);
  } else {
    for (const Stretch& stretch : stretches) attend(stretch, query, key, value, memory, call, out);
  }
  return out;
}

}  // namespace llmtrain::kernels
