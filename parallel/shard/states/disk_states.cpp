// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/disk_states.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/from_blob.h>

#include <algorithm>
#include <bit>
#include <cstdint>
#include <cstring>
#include <optional>
#include <span>
#include <utility>

namespace llmtrain {
namespace {

std::span<std::byte> bytes_of(const at::Tensor& tensor) {
  return {static_cast<std::byte*>(tensor.data_ptr()), tensor.nbytes()};
}

// Aligned as the file.
at::Tensor make_bytes(std::int64_t bytes) {
  const at::Tensor memory = at::empty({bytes + ScratchFile::alignment}, at::kByte);
  const auto address = static_cast<std::int64_t>(reinterpret_cast<std::uintptr_t>(memory.data_ptr()));
  return memory.narrow(0, ScratchFile::aligned(address) - address, bytes);
}

}  // namespace

StateDisk::StateDisk(const std::filesystem::path& folder, const StateFile& file, const at::Device& device)
    : file_(folder, file.bytes, "/memory/offload/folder"),
      is_pinned_(!device.is_cpu()),
      memory_(make_bytes(file.buffers())) {
  const std::span<std::byte> all = bytes_of(memory_);
  stream_ = std::make_unique<ScratchStream>(
      file_, ScratchStream::Buffers{all.first(all.size() / 2), all.subspan(all.size() / 2)});
}

std::size_t StateDisk::add(const StatePieces& pieces, bool in_order) {
  const std::size_t first = blocks_.size();
  const std::int64_t begin = blocks_.empty() ? 0 : blocks_.back().offset + blocks_.back().bytes;
  for (std::int64_t i = 0; i < pieces.count(); ++i)
    add_block({begin + pieces.offset(i), pieces.piece_bytes(i)}, in_order);
  return first;
}

void StateDisk::add_block(const ScratchBlock& block, bool in_order) {
  if (!next_.empty() && in_order) next_.back() = blocks_.size();
  next_.emplace_back();
  in_order_.push_back(in_order);
  blocks_.push_back(block);
  if (!in_order) largest_pinned_ = std::max(largest_pinned_, block.bytes);
}

// LibTorch takes a power of two of bytes for memory that is pinned, in whole pages.
at::Tensor StateDisk::take(std::size_t number) {
  const std::int64_t bytes = block(number).bytes;
  if (!is_pinned_) return make_bytes(bytes);
  if (free_.empty()) {
    ++pinned_pieces_;
    free_.push_back(at::empty({largest_pinned_}, at::TensorOptions(at::kByte).pinned_memory(true)));
  }
  const at::Tensor memory = std::move(free_.back());
  free_.pop_back();
  return memory.narrow(0, 0, bytes);
}

void StateDisk::give(at::Tensor memory) {
  if (is_pinned_) free_.push_back(memory.as_strided({largest_pinned_}, {1}, 0));
}

std::int64_t StateDisk::buffers() const {
  const auto pinned = static_cast<std::int64_t>(std::bit_ceil(static_cast<std::uint64_t>(largest_pinned_)));
  return static_cast<std::int64_t>(memory_.nbytes()) + pinned_pieces_ * pinned;
}

void StateDisk::set_order(const std::vector<std::size_t>& numbers) {
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const bool is_next = i + 1 < numbers.size() && in_order_.at(numbers[i + 1]);
    next_.at(numbers[i]) = is_next ? std::optional(numbers[i + 1]) : std::nullopt;
  }
}

std::span<std::byte> StateDisk::begin(std::size_t number, std::optional<std::size_t> next) {
  // The last one's is the first of the next step, when a checkpoint may have changed it.
  if (!next) next = next_.at(number);
  return stream_->begin(blocks_[number], next ? std::optional(blocks_[*next]) : std::nullopt);
}

DiskStates::DiskStates(StateDisk& disk, StatePieces pieces, std::vector<at::ScalarType> types, bool in_order)
    : disk_(disk), pieces_(std::move(pieces)), types_(std::move(types)), first_(disk.add(pieces_, in_order)) {}

std::vector<at::Tensor> DiskStates::states_in(std::byte* bytes, std::int64_t piece) const {
  std::vector<at::Tensor> states;
  for (std::size_t i = 0; i < types_.size(); ++i)
    states.push_back(at::from_blob(bytes + pieces_.begin_of(i, piece), {pieces_.piece(piece).count()},
                                   at::TensorOptions(types_[i])));
  return states;
}

DiskStates::Held DiskStates::read_piece(std::int64_t piece) const {
  const std::size_t number = first_ + static_cast<std::size_t>(piece);
  Held held{disk_.take(number), {}};
  disk_.read(number, bytes_of(held.bytes));
  held.states = states_in(bytes_of(held.bytes).data(), piece);
  return held;
}

void DiskStates::write_piece(std::int64_t piece, Held held) {
  disk_.write(first_ + static_cast<std::size_t>(piece), bytes_of(held.bytes));
  disk_.give(std::move(held.bytes));
}

std::vector<at::Tensor> DiskStates::begin(std::int64_t piece, UpdatePass pass) {
  const std::size_t number = first_ + static_cast<std::size_t>(piece);
  // The pass that changes them begins where the one before it did.
  const bool is_read_again = pass == UpdatePass::find_largest && piece + 1 == pieces_.count();
  const std::span<std::byte> bytes = disk_.begin(number, is_read_again ? std::optional(first_) : std::nullopt);
  return states_in(bytes.data(), piece);
}

template <class Work>
void DiskStates::for_parts(std::size_t state, std::int64_t begin, std::int64_t count, Work work) const {
  const std::int64_t width = pieces_.widths[state];
  for (std::int64_t i = begin / StatePieces::most; i < pieces_.count(); ++i) {
    const FlatInterval piece = pieces_.piece(i), part = intersection(piece, {begin, begin + count});
    if (part.count() == 0) break;
    const std::int64_t at = disk_.block(first_ + static_cast<std::size_t>(i)).offset + pieces_.begin_of(state, i);
    const std::int64_t from = (part.begin - piece.begin) * width, to = (part.end - piece.begin) * width;
    const std::int64_t start = from / ScratchFile::alignment * ScratchFile::alignment;
    work(at + start, ScratchFile::aligned(to) - start, from - start,
         FlatInterval{part.begin - begin, part.end - begin});
  }
}

void DiskStates::read(std::size_t state, std::int64_t begin, const at::Tensor& to) const {
  for_parts(state, begin, to.numel(),
            [&](std::int64_t offset, std::int64_t bytes, std::int64_t skipped, FlatInterval part) {
              const at::Tensor blocks = make_bytes(bytes);
              disk_.stream().read(offset, bytes_of(blocks));
              const std::span<std::byte> wanted = bytes_of(to.slice(0, part.begin, part.end));
              std::memcpy(wanted.data(), bytes_of(blocks).data() + skipped, wanted.size());
            });
}

void DiskStates::write(std::size_t state, std::int64_t begin, const at::Tensor& from) const {
  for_parts(state, begin, from.numel(),
            [&](std::int64_t offset, std::int64_t bytes, std::int64_t skipped, FlatInterval part) {
              const std::span<std::byte> given = bytes_of(from.slice(0, part.begin, part.end));
              const at::Tensor blocks = make_bytes(bytes);
              // What lies around it stays.
              if (std::ssize(given) < bytes) disk_.stream().read(offset, bytes_of(blocks));
              std::memcpy(bytes_of(blocks).data() + skipped, given.data(), given.size());
              disk_.stream().write(offset, bytes_of(blocks));
            });
}

OptimizerUpdate part_of_update(const OptimizerUpdate& update, const FlatInterval& piece,
                               std::vector<at::Tensor> states) {
  const auto part = [&](const at::Tensor& flat) { return flat.slice(0, piece.begin, piece.end); };
  OptimizerUpdate of_piece = update;
  of_piece.begin = update.begin + piece.begin;
  of_piece.gradients = part(update.gradients);
  if (update.compute_weights) of_piece.compute_weights = part(*update.compute_weights);
  of_piece.weights = update.weights.is_meta() ? states.front() : part(update.weights);
  if (update.weights.is_meta()) states.erase(states.begin());
  of_piece.states = std::move(states);
  return of_piece;
}

void update_from_disk(const OptimizerUpdate& update, DiskStates& states, UpdatePass pass, const PieceUpdate& make) {
  for (std::int64_t i = 0; i < states.pieces().count(); ++i) {
    make(part_of_update(update, states.pieces().piece(i), states.begin(i, pass)));
    states.end(pass);
  }
}

}  // namespace llmtrain
