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
#include <vector>

#include "core/base/error.h"
#include "kernels/accumulation_type.h"
#include "kernels/attention/attention_loops.h"
#include "kernels/attention/cuda_decode.h"
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

// Where the keys and values of sequences are.
class Blocks {
 public:
  Blocks(const CachedTokens& tokens, const KeyValueMemory& memory)
      : tables_(tokens.blocks), size_(memory.key.size(2)), count_(memory.key.size(0)) {}

  std::int64_t size() const { return size_; }
  std::int64_t of(std::int64_t sequence, std::int64_t position) const {
    return tables_.empty() ? sequence
                           : tables_[static_cast<std::size_t>(sequence)][static_cast<std::size_t>(position / size_)];
  }
  bool have(const CachePlace& place) const {
    if (place.sequence < 0) return true;
    if (place.position < 0) return false;
    if (tables_.empty()) return place.sequence < count_ && place.position < size_;
    if (place.sequence >= std::ssize(tables_)) return false;
    const std::vector<std::int64_t>& table = tables_[static_cast<std::size_t>(place.sequence)];
    return place.position / size_ < std::ssize(table) && of(place.sequence, place.position) < count_;
  }
  // The first `end` tokens' keys or values of a sequence, [end, kv_heads, D]: a copy where they are in several blocks.
  at::Tensor gathered(const at::Tensor& all, std::int64_t sequence, std::int64_t end) const {
    if (end <= size_) return all.select(0, of(sequence, 0)).narrow(1, 0, end).transpose(0, 1);
    const std::int64_t count = (end + size_ - 1) / size_;
    const at::Tensor found = at::empty({count, size_, all.size(1), all.size(3)}, all.options());
    for (std::int64_t i = 0; i < count; ++i)
      found.select(0, i).copy_(all.select(0, of(sequence, i * size_)).transpose(0, 1));
    return found.view({count * size_, all.size(1), all.size(3)}).narrow(0, 0, end);
  }

 private:
  std::span<const std::vector<std::int64_t>> tables_;
  std::int64_t size_, count_;
};

void check_places(std::span<const CachePlace> places, const Blocks& blocks, const KeyValueMemory& memory) {
  for (const CachePlace& place : places) {
    if (blocks.have(place)) continue;
    throw Error(ExitCode::internal_error, "cached attention: no place for position " + std::to_string(place.position) +
                                              " of sequence " + std::to_string(place.sequence) + " in memory of " +
                                              std::to_string(memory.key.size(0)) + " blocks of " +
                                              std::to_string(memory.key.size(2)));
  }
}

// Stores the keys or values of a stretch.
void store(const Stretch& stretch, const at::Tensor& rows, const Blocks& blocks, const at::Tensor& memory) {
  const std::int64_t end = stretch.first.position + stretch.length;
  for (std::int64_t position = stretch.first.position; position < end;) {
    const std::int64_t offset = position % blocks.size(), count = std::min(blocks.size() - offset, end - position);
    memory.select(0, blocks.of(stretch.first.sequence, position))
        .narrow(1, offset, count)
        .transpose(0, 1)
        .copy_(rows.narrow(0, stretch.row + position - stretch.first.position, count));
    position += count;
  }
}

// Any number of tokens of one sequence, through the kernels of whole sequences.
void attend(const Stretch& stretch, const at::Tensor& query, const at::Tensor& key, const at::Tensor& value,
            KeyValueMemory& memory, const Blocks& blocks, const CachedAttentionCall& how, const at::Tensor& out) {
  const std::int64_t begin = stretch.first.position, end = begin + stretch.length;
  const auto held = [&](const at::Tensor& all) {
    return blocks.gathered(all, stretch.first.sequence, end).unsqueeze(0);
  };
  const auto rows = [&](const at::Tensor& x) { return x.narrow(0, stretch.row, stretch.length); };
  store(stretch, key, blocks, memory.key);
  store(stretch, value, blocks, memory.value);
  AttentionCall call{how.method, {}, {end, {{begin, stretch.length}}}};
  call.window = how.window;
  call.scale = how.scale;
  call.sinks = how.sinks;
  if (how.bias.defined()) {
    call.method = AttentionMethod::math;
    call.bias = how.bias.narrow(1, stretch.row, stretch.length).narrow(2, 0, end);
  }
  rows(out).copy_(
      attention_forward(rows(query).unsqueeze(0), held(memory.key), held(memory.value), call).out.squeeze(0));
}

std::int64_t longest_of(const std::vector<Stretch>& tokens) {
  std::int64_t longest = 0;
  for (const Stretch& token : tokens) longest = std::max(longest, token.first.position + 1);
  return longest;
}

// The keys and values of one head that a token sees, block by block, and some before them that it does not: blocks'
// keys are counted in fours from the sequence's beginning, so that sums do not depend on the window's.
template <class Value>
struct SeenKeys {
  std::vector<vector::KeyRun<Value>> runs;
  std::int64_t count = 0, unseen = 0;

  void find(const CachePlace& place, const KeyValueMemory& memory, const Blocks& blocks, std::int64_t head,
            const std::optional<std::int64_t>& window) {
    runs.clear();
    const std::int64_t end = place.position + 1, seen = std::min(end, window.value_or(end));
    unseen = (end - seen) % 4;
    count = seen + unseen;
    const std::int64_t dim = memory.key.size(3);
    for (std::int64_t position = end - count; position < end;) {
      const std::int64_t offset = position % blocks.size(), length = std::min(blocks.size() - offset, end - position);
      const auto at = [&](const at::Tensor& all) {
        return static_cast<const Value*>(all.const_data_ptr()) + blocks.of(place.sequence, position) * all.stride(0) +
               head * all.stride(1) + offset * dim;
      };
      runs.push_back({at(memory.key), at(memory.value), length});
      position += length;
    }
  }
};

// One token of each sequence. Matrix products would be of one row, and of another shape with every token; oneDNN would
// generate code for each. The loop reads every key and value once.
template <class Value>
void attend_singly(const std::vector<Stretch>& tokens, const at::Tensor& query, const at::Tensor& key,
                   const at::Tensor& value, KeyValueMemory& memory, const Blocks& blocks,
                   const CachedAttentionCall& call, const at::Tensor& out) {
  const auto& loops = attention_loops<Value>();
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
    std::vector<float> scratch(static_cast<std::size_t>(longest + dim));
    SeenKeys<Value> seen;
    for (std::int64_t task = begin; task < end; ++task) {
      const Stretch& token = tokens[static_cast<std::size_t>(task / kv_heads)];
      const std::int64_t head = task % kv_heads, offset = token.first.position % blocks.size();
      const std::int64_t block = blocks.of(token.first.sequence, token.first.position);
      std::copy_n(at(key, token.row, head), dim, at(memory.key, block, head) + offset * dim);
      std::copy_n(at(value, token.row, head), dim, at(memory.value, block, head) + offset * dim);
      seen.find(token.first, memory, blocks, head, call.window);
      for (std::int64_t h = head * group; h < (head + 1) * group; ++h)
        loops.attend({.query = at(query, token.row, h),
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
  if (!query.is_cpu() && !tokens.blocks.empty())
    throw Error(ExitCode::internal_error, "cached attention: tables of blocks are of processors");
  const Blocks blocks(tokens, memory);
  check_places(tokens.places, blocks, memory);
  const std::vector<Stretch> stretches = stretches_of(tokens.places);
  const bool singly = std::all_of(stretches.begin(), stretches.end(), [](const Stretch& s) { return s.length == 1; });
  const double scale = call.scale.value_or(attention_scale(query.size(2)));
  std::int64_t covered = 0;
  for (const Stretch& stretch : stretches) covered += stretch.length;
  const at::Tensor out =
      covered == query.size(0) ? at::empty(query.sizes(), query.options()) : at::zeros(query.sizes(), query.options());
  if (singly && has_vector_type(query)) {
    with_element_of(
        query, [&]<class Element> { attend_singly<Element>(stretches, query, key, value, memory, blocks, call, out); });
  } else if (call.bias.defined()) {
    for (const Stretch& stretch : stretches) attend(stretch, query, key, value, memory, blocks, call, out);
  } else if (singly && are_first(stretches) && has_cuda_decode(query, memory)) {
    cuda_decode(query, key, value, tokens, memory, std::ssize(stretches), longest_of(stretches), scale, out);
  } else if (singly && !query.is_cpu() && are_first(stretches)) {
    attend_together(stretches, query, key, value, tokens, memory, scale, out);
  } else {
    for (const Stretch& stretch : stretches) attend(stretch, query, key, value, memory, blocks, call, out);
  }
  return out;
}

}  // namespace llmtrain::kernels
