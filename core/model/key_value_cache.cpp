// SPDX-License-Identifier: Apache-2.0
#include "core/model/key_value_cache.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros.h>

#include <initializer_list>
#include <utility>

namespace llmtrain {

void KeyValueCache::start(kernels::CachedTokens tokens) {
  tokens_ = std::move(tokens);
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
    const std::initializer_list<std::int64_t> shape{sequences_, key.size(2), capacity_, key.size(3)};
    // A GPU multiplies by 0 what is not there yet, which must be finite for that.
    const auto make = [&] { return key.is_cpu() ? at::empty(shape, key.options()) : at::zeros(shape, key.options()); };
    memory = {make(), make()};
  }
  return memory;
}

at::Tensor KeyValueCache::attend(std::int64_t layer, const at::Tensor& query, const KeysAndValues& own,
                                 const kernels::CachedAttentionCall& call) {
  return kernels::cached_attention(query.squeeze(0), own.key.squeeze(0), own.value.squeeze(0), tokens_,
                                   memory_of(layer, own.key), call)
      .unsqueeze(0);
}

void KeyValueCache::copy(std::int64_t from, std::int64_t to, std::int64_t tokens) {
  for (auto& [layer, memory] : layers_)
    for (const at::Tensor& all : {memory.key, memory.value})
      all.select(0, to).narrow(1, 0, tokens).copy_(all.select(0, from).narrow(1, 0, tokens));
}

}  // namespace llmtrain
