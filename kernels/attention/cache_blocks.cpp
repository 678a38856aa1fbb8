// SPDX-License-Identifier: Apache-2.0
#include "kernels/attention/cache_blocks.h"

#include <ATen/ops/empty.h>

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

#include "core/base/error.h"
#include "kernels/attention/attention_loops.h"

namespace llmtrain::kernels {
namespace {

// Rows of fp32 or bf16 as bytes with a scale each.
template <class Byte>
void quantize_rows(const at::Tensor& rows, const at::Tensor& payload, const at::Tensor& scales) {
  const at::Tensor from = rows.contiguous();
  with_element_of(from, [&]<class Element> {
    const std::int64_t dim = from.size(-1);
    for (std::int64_t i = 0; i < from.numel() / dim; ++i)
      attention_loops<Element>().template of_rows<Byte>().quantize(elements<Element>(from) + i * dim, dim,
                                                                   mutable_elements<Byte>(payload) + i * dim,
                                                                   scales.mutable_data_ptr<float>()[i]);
  });
}

}  // namespace

std::vector<TokenStretch> stretches_of(std::span<const CachePlace> places) {
  std::vector<TokenStretch> result;
  for (std::size_t row = 0; row < places.size(); ++row) {
    const CachePlace& place = places[row];
    if (place.sequence < 0) continue;
    if (!result.empty()) {
      TokenStretch& last = result.back();
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

CacheBlocks::CacheBlocks(const CachedTokens& tokens, const KeyValueMemory& memory)
    : tables_(tokens.blocks), size_(memory.key.size(2)), count_(memory.key.size(0)) {
  for (const CachePlace& place : tokens.places) {
    if (have(place)) continue;
    throw Error(ExitCode::internal_error, "cached attention: no place for position " + std::to_string(place.position) +
                                              " of sequence " + std::to_string(place.sequence) + " in memory of " +
                                              std::to_string(count_) + " blocks of " + std::to_string(size_));
  }
}

bool CacheBlocks::have(const CachePlace& place) const {
  if (place.sequence < 0) return true;
  if (place.position < 0) return false;
  if (tables_.empty()) return place.sequence < count_ && place.position < size_;
  if (place.sequence >= std::ssize(tables_)) return false;
  const std::vector<std::int64_t>& table = tables_[static_cast<std::size_t>(place.sequence)];
  return place.position / size_ < std::ssize(table) && of(place.sequence, place.position) < count_;
}

at::Tensor CacheBlocks::gathered(const at::Tensor& all, std::int64_t sequence, std::int64_t end) const {
  if (end <= size_) return all.select(0, of(sequence, 0)).narrow(1, 0, end).transpose(0, 1);
  const std::int64_t count = (end + size_ - 1) / size_;
  std::vector<std::int64_t> shape = all.sizes().vec();
  std::swap(shape[1], shape[2]);
  shape[0] = count;
  const at::Tensor found = at::empty(shape, all.options());
  for (std::int64_t i = 0; i < count; ++i)
    found.select(0, i).copy_(all.select(0, of(sequence, i * size_)).transpose(0, 1));
  return found.flatten(0, 1).narrow(0, 0, end);
}

at::Tensor CacheBlocks::held(std::int64_t sequence, std::int64_t end, const at::Tensor& memory,
                             const at::Tensor& scales, at::ScalarType type) const {
  const at::Tensor found = gathered(memory, sequence, end);
  if (!scales.defined()) return found;
  return found.to(at::kFloat).mul_(gathered(scales, sequence, end).unsqueeze(2)).to(type);
}

void CacheBlocks::store(const TokenStretch& stretch, const at::Tensor& rows, const at::Tensor& memory,
                        const at::Tensor& scales) const {
  at::Tensor stored = rows.narrow(0, stretch.row, stretch.length), stored_scales;
  if (scales.defined()) {
    const at::Tensor exact = has_vector_type(stored) ? stored : stored.to(at::kFloat);
    stored = at::empty(exact.sizes(), memory.options());
    stored_scales = at::empty({exact.size(0), exact.size(1)}, scales.options());
    const bool is_int8 = memory.scalar_type() == at::kChar;
    (is_int8 ? quantize_rows<std::int8_t> : quantize_rows<vector::Fp8Element>)(exact, stored, stored_scales);
  }
  const std::int64_t end = stretch.first.position + stretch.length;
  for (std::int64_t position = stretch.first.position; position < end;) {
    const std::int64_t offset = position % size_, count = std::min(size_ - offset, end - position);
    const std::int64_t block = of(stretch.first.sequence, position), first = position - stretch.first.position;
    memory.select(0, block).narrow(1, offset, count).transpose(0, 1).copy_(stored.narrow(0, first, count));
    if (scales.defined())
      scales.select(0, block).narrow(1, offset, count).transpose(0, 1).copy_(stored_scales.narrow(0, first, count));
    position += count;
  }
}

}  // namespace llmtrain::kernels
