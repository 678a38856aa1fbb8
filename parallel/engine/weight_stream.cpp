// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/weight_stream.h"

#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <utility>

#include "core/parameters/flat_memory.h"

namespace llmtrain {
namespace {

std::int64_t file_bytes(const ShardedParameters& parameters) {
  return ScratchFile::aligned(static_cast<std::int64_t>(parameters.source().nbytes()));
}

at::Tensor weights_at(std::byte* place, const ShardedParameters& parameters) {
  return at::from_blob(place, parameters.source().sizes(), at::TensorOptions(parameters.source().scalar_type()));
}

}  // namespace

WeightStream::WeightStream(const Partition& partition, const WeightMemory& memory)
    : partition_(partition),
      weights_(streamed_weights(partition, memory.bytes, memory_flag)),
      file_(std::make_unique<ScratchFile>(memory.folder, weights_.bytes_per_pass, folder_flag)),
      // Aligned as the file.
      memory_(make_flat_memory(StreamedWeights::buffers * weights_.largest_bytes + ScratchFile::alignment, at::kByte,
                               at::kCPU)),
      units_(partition.stages.size()),
      number_(partition.stages.size()) {
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory_.data_ptr()));
  std::byte* place = static_cast<std::byte*>(memory_.data_ptr()) + (ScratchFile::aligned(address) - address);
  for (std::int64_t i = 0; i < StreamedWeights::buffers; ++i)
    buffers_.emplace_back(place + i * weights_.largest_bytes, static_cast<std::size_t>(weights_.largest_bytes));
  std::vector<ScratchBlock> blocks;
  for (std::size_t stage = 0; stage < number_.size(); ++stage) {
    number_[stage] = blocks.size();
    if (streams(stage)) blocks.push_back(weights_.blocks[stage]);
  }
  reader_ = std::make_unique<ScratchReader>(*file_, std::move(blocks), buffers_, memory.bytes_per_second);
}

void WeightStream::add(std::size_t stage, ShardedParameters& parameters) {
  units_[stage].push_back({&parameters, streamed_offset(partition_, stage, units_[stage].size())});
}

bool WeightStream::has(const ShardedParameters& parameters) const {
  return std::ranges::any_of(units_, [&](const std::vector<Unit>& units) {
    return std::ranges::any_of(units, [&](const Unit& unit) { return unit.parameters == &parameters; });
  });
}

void WeightStream::write(ShardedParameters& parameters, const std::function<void()>& write) {
  for (std::size_t stage = 0; stage < units_.size(); ++stage)
    for (const Unit& unit : units_[stage]) {
      if (unit.parameters != &parameters) continue;
      const std::int64_t offset = weights_.blocks[stage].offset + unit.offset;
      const auto bytes = buffers_.front().first(static_cast<std::size_t>(file_bytes(parameters)));
      file_->read(offset, bytes);
      parameters.lend(weights_at(bytes.data(), parameters));
      write();
      parameters.take_back();
      file_->write(offset, bytes);
    }
}

void WeightStream::begin(std::size_t stage) {
  // Nobody writes to what is read.
  auto* block = const_cast<std::byte*>(reader_->begin(number_[stage]).data());
  for (const Unit& unit : units_[stage]) unit.parameters->lend(weights_at(block + unit.offset, *unit.parameters));
}

void WeightStream::end(std::size_t stage) {
  for (const Unit& unit : units_[stage]) unit.parameters->take_back();
  reader_->end();
}

WeightStream::Use::Use(WeightStream* stream, std::size_t stage)
    : stream_(stream != nullptr && stream->streams(stage) ? stream : nullptr), stage_(stage) {
  if (stream_ != nullptr) stream_->begin(stage_);
}

WeightStream::Use::~Use() {
  if (stream_ != nullptr) stream_->end(stage_);
}

}  // namespace llmtrain
