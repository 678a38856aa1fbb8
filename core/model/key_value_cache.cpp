// SPDX-License-Identifier: Apache-2.0
#include "core/model/key_value_cache.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <algorithm>
#include <initializer_list>
#include <iterator>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "kernels/attention/attention.h"

namespace llmtrain {
namespace {

// The type of elements that are kept with scales.
std::optional<at::ScalarType> byte_type(KeyValueType type) {
  switch (type) {
    case KeyValueType::compute:
      break;
    case KeyValueType::int8:
      return at::kChar;
    case KeyValueType::fp8:
      return at::kFloat8_e4m3fn;
  }
  return std::nullopt;
}

}  // namespace

std::int64_t key_value_bytes(KeyValueType type, std::int64_t kv_heads, std::int64_t head_dim,
                             std::int64_t compute_bytes) {
  switch (type) {
    case KeyValueType::compute:
      break;
    case KeyValueType::int8:
    case KeyValueType::fp8:
      return 2 * kv_heads * (head_dim + static_cast<std::int64_t>(sizeof(float)));
  }
  return 2 * kv_heads * head_dim * compute_bytes;
}

void KeyValueCache::start(kernels::CachedTokens tokens, std::optional<std::int64_t> of_source) {
  tokens_ = std::move(tokens);
  tokens_.blocks = tables_;
  of_source_ = of_source;
  if (of_source) sources_.at(static_cast<std::size_t>(*of_source)) = std::make_shared<Source>();
  rotations_.clear();
}

const kernels::RopeTable& KeyValueCache::rotations_of(const kernels::RopeTable& table) {
  const auto [entry, is_new] = rotations_.try_emplace(&table);
  if (is_new) entry->second = {.cosine = rows_of(table.cosine), .sine = rows_of(table.sine)};
  return entry->second;
}

kernels::KeyValueMemory& KeyValueCache::memory_of(std::int64_t layer, const at::Tensor& key) {
  kernels::KeyValueMemory& memory = layers_[layer];
  if (!memory.key.defined()) {
    const std::initializer_list<std::int64_t> shape{blocks_, key.size(2), block_tokens_, key.size(3)};
    // A GPU multiplies by 0 what is not there yet, which must be finite for that.
    const std::optional<at::ScalarType> bytes = byte_type(type_);
    const auto options = key.options().dtype(bytes.value_or(key.scalar_type()));
    const auto make = [&] { return key.is_cpu() ? at::empty(shape, options) : at::zeros(shape, options); };
    memory = {make(), make()};
    if (bytes) {
      const auto scales = [&] { return at::empty({blocks_, key.size(2), block_tokens_}, options.dtype(at::kFloat)); };
      memory.key_scales = scales();
      memory.value_scales = scales();
    }
  }
  return memory;
}

at::Tensor KeyValueCache::attend(std::int64_t layer, const at::Tensor& query, const KeysAndValues& own,
                                 const kernels::CachedAttentionCall& call) {
  return kernels::cached_attention(query.squeeze(0), own.key.squeeze(0), own.value.squeeze(0), tokens_,
                                   memory_of(layer, own.key), call)
      .unsqueeze(0);
}

std::int64_t KeyValueCache::positions_at_hand() const {
  constexpr std::int64_t step = 64;
  std::int64_t longest = std::ssize(tokens_.places);
  for (const kernels::CachePlace& place : tokens_.places) longest = std::max(longest, place.position + 1);
  return (longest + step - 1) / step * step;
}

at::Tensor KeyValueCache::attend_source(std::uint64_t site, const at::Tensor& query, const KeysAndValues& own,
                                        std::optional<double> scale) {
  if (of_source_) (*sources_[static_cast<std::size_t>(*of_source_)])[site] = own;
  const auto source_of = [&](std::int64_t row) {
    return sources_[static_cast<std::size_t>(tokens_.places[static_cast<std::size_t>(row)].sequence)];
  };
  at::Tensor out = at::empty(query.sizes(), query.options());
  kernels::AttentionCall call;
  call.is_causal = false;
  call.scale = scale;
  for (std::int64_t row = 0, end = 0; row < query.size(1); row = end) {
    const std::shared_ptr<Source> source = source_of(row);
    if (!source || !source->contains(site))
      throw Error(ExitCode::internal_error, "key and value cache: a sequence has no source to attend to");
    while (end < query.size(1) && source_of(end) == source) ++end;
    const KeysAndValues& read = source->at(site);
    const at::Tensor rows = query.narrow(1, row, end - row);
    out.narrow(1, row, end - row).copy_(kernels::attention_forward(rows, read.key, read.value, call).out);
  }
  return out;
}

void KeyValueCache::copy(std::span<const Copy> copies) {
  std::vector<std::shared_ptr<Source>> sources;
  for (const Copy& copy : copies) sources.push_back(sources_[static_cast<std::size_t>(copy.from)]);
  for (std::size_t i = 0; i < copies.size(); ++i)
    sources_[static_cast<std::size_t>(copies[i].to)] = std::move(sources[i]);
  for (auto& [layer, memory] : layers_)
    for (const at::Tensor& all : {memory.key, memory.value, memory.key_scales, memory.value_scales}) {
      if (!all.defined()) continue;
      const auto held = [&](std::int64_t sequence, std::int64_t tokens) {
        return all.select(0, sequence).narrow(1, 0, tokens);
      };
      std::vector<at::Tensor> read;
      for (const Copy& copy : copies) {
        const at::Tensor from = held(copy.from, copy.tokens);
        read.push_back(copies.size() > 1 ? from.clone() : from);
      }
      for (std::size_t i = 0; i < copies.size(); ++i) held(copies[i].to, copies[i].tokens).copy_(read[i]);
    }
}

}  // namespace llmtrain
