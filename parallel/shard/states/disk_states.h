// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <vector>

#include "core/optim/optimizer.h"
#include "core/scratch/scratch_file.h"
#include "core/scratch/scratch_stream.h"
#include "parallel/layout/state_pieces.h"

namespace llmtrain {

// The file of a rank's states (memory.offload.optimizer "disk"; ZeRO-Infinity, Rajbhandari et al., arXiv 2104.07857,
// section 5.1.1): updates read and write the groups' pieces in the order in which these were added, or another one that
// is known before, so that the next one, also of another group, is on its way while the processor works on one.
class StateDisk {
 public:
  // Throws as ScratchFile does. `device`: where the model computes.
  StateDisk(const std::filesystem::path& folder, const StateFile& file, const at::Device& device);

  const ScratchFile& file() const { return file_; }
  ScratchStream& stream() { return *stream_; }
  const ScratchStream& stream() const { return *stream_; }
  // Bytes of memory that it takes.
  std::int64_t buffers() const;

  // Takes the place of a group's pieces; the number of their first. `in_order`: whether begin() is asked for them.
  std::size_t add(const StatePieces& pieces, bool in_order);
  // Pieces are read and written in the order of these numbers, of which each is there once.
  void set_order(const std::vector<std::size_t>& numbers);
  const ScratchBlock& block(std::size_t number) const { return blocks_.at(number); }
  // `next`: what is asked for after it, where that is not the next of the order.
  std::span<std::byte> begin(std::size_t number, std::optional<std::size_t> next = std::nullopt);
  // Memory for a piece that is asked for in no order, until give(). Beside a GPU it is pinned, and stays for the next.
  at::Tensor take(std::size_t number);
  void give(at::Tensor memory);
  // Such a piece, whose bytes the caller has; aligned as the file. Block until it is done.
  void read(std::size_t number, std::span<std::byte> to) { stream_->read_block(blocks_.at(number), to); }
  void write(std::size_t number, std::span<const std::byte> from) { stream_->write_block(blocks_.at(number), from); }
  // End what began: a piece that has changed, and one that has been read alone.
  void end() { stream_->end(); }
  void leave() { stream_->leave(); }

 private:
  void add_block(const ScratchBlock& block, bool in_order);

  ScratchFile file_;
  bool is_pinned_;
  at::Tensor memory_;
  std::vector<at::Tensor> free_;  // pinned
  std::int64_t pinned_pieces_ = 0, largest_pinned_ = 0;
  std::vector<ScratchBlock> blocks_;
  std::vector<std::optional<std::size_t>> next_;  // what is read after each
  std::vector<bool> in_order_;
  std::unique_ptr<ScratchStream> stream_;
};

// The states of one group in that file: flat tensors of a rank's owned elements, zero at first.
class DiskStates {
 public:
  // `types` of the states, in their order; the disk outlives this. `in_order`: as StateDisk::add()'s.
  DiskStates(StateDisk& disk, StatePieces pieces, std::vector<at::ScalarType> types, bool in_order = true);

  const StatePieces& pieces() const { return pieces_; }
  // What add() has returned for them.
  std::size_t first_number() const { return first_; }
  // The states of a piece, until end(): to be changed in UpdatePass::update, in the other, which precedes that, to be
  // read. Block and fail as ScratchStream's.
  std::vector<at::Tensor> begin(std::int64_t piece, UpdatePass pass);
  void end(UpdatePass pass) { pass == UpdatePass::update ? disk_.end() : disk_.leave(); }
  // Those of a piece in memory of their own (StateDisk::take()), read from the file, and written there.
  struct Held {
    at::Tensor bytes;
    std::vector<at::Tensor> states;
  };
  Held read_piece(std::int64_t piece) const;
  void write_piece(std::int64_t piece, Held held);

  // Elements of a state from `begin` on, as many as the tensor has, which is on the CPU and of the state's type.
  void read(std::size_t state, std::int64_t begin, const at::Tensor& to) const;
  void write(std::size_t state, std::int64_t begin, const at::Tensor& from) const;

 private:
  // A piece's states, where its bytes are.
  std::vector<at::Tensor> states_in(std::byte* bytes, std::int64_t piece) const;
  // Calls work(offset in the file of whole blocks, how many bytes, the first wanted byte in them, elements of the
  // tensor) for the parts of pieces.
  template <class Work>
  void for_parts(std::size_t state, std::int64_t begin, std::int64_t count, Work work) const;

  StateDisk& disk_;
  StatePieces pieces_;
  std::vector<at::ScalarType> types_;
  std::size_t first_;
};

// What makes a pass of an update over some of its elements, whose tensors it is given.
using PieceUpdate = std::function<void(const OptimizerUpdate& of_piece)>;

// Makes a pass over all elements, piece by piece, with states of the disk: the first is the weights where those of
// `update` are on the Meta device.
void update_from_disk(const OptimizerUpdate& update, DiskStates& states, UpdatePass pass, const PieceUpdate& make);

// The part of `update` that has the elements of a piece, whose states these are.
OptimizerUpdate part_of_update(const OptimizerUpdate& update, const FlatInterval& piece,
                               std::vector<at::Tensor> states);

}  // namespace llmtrain
