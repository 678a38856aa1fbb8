// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <map>
#include <vector>

#include "core/optim/optimizer.h"
#include "parallel/shard/states/disk_states.h"

namespace llmtrain {

// Weights and states of Muon's matrices in the host's memory, which come to the device matrix by matrix: products of
// matrices would take the host too long.
class HostMatrixStates final : public ElsewhereStates {
 public:
  // Flat tensors: the weights, then the states. `device`: where the update computes.
  HostMatrixStates(std::vector<at::Tensor> states, const at::Device& device);

  at::Tensor fetch(std::size_t state, std::int64_t begin, std::int64_t end) override;
  void store(std::size_t state, std::int64_t begin, const at::Tensor& values) override;

 private:
  std::vector<at::Tensor> states_;
  at::Device device_;
};

// The same in a file. A piece of it stays in memory from the first element that is asked for until all of its weights
// are stored, so that each is read and written once: as many pieces as the matrices at work have, and those that share
// a piece with them.
class DiskMatrixStates final : public ElsewhereStates {
 public:
  // `weights`: where the file has none, flat; else on the Meta device. `elements`: those that an update stores, before
  // any padding.
  DiskMatrixStates(DiskStates& disk, const at::Tensor& weights, std::int64_t elements, const at::Device& device);

  at::Tensor fetch(std::size_t state, std::int64_t begin, std::int64_t end) override;
  void store(std::size_t state, std::int64_t begin, const at::Tensor& values) override;

 private:
  struct Piece {
    DiskStates::Held held;
    std::int64_t left = 0;  // elements whose weights are to be stored
  };

  // A state's place in the pieces; the weights may be in none.
  std::size_t in_piece(std::size_t state) const { return has_weights_ ? state : state - 1; }
  Piece& piece(std::int64_t index);
  // Calls work(piece's index, its part of a state, part of the elements from `begin` on).
  template <class Work>
  void for_parts(std::size_t state, const FlatInterval& elements, Work work);

  DiskStates& disk_;
  at::Tensor weights_;
  bool has_weights_;  // in the file
  std::int64_t elements_;
  at::Device device_;
  std::map<std::int64_t, Piece> pieces_;
};

}  // namespace llmtrain
