// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <cstdint>
#include <functional>
#include <map>
#include <utility>
#include <vector>

#include "core/optim/optimizer.h"
#include "parallel/shard/states/disk_states.h"
#include "parallel/shard/states/offload/matrix_copies.h"

namespace llmtrain {

// Weights and states of Muon's matrices that are not where the model computes, and come there matrix by matrix.
class MatrixStates : public ElsewhereStates {
 public:
  at::Tensor bring(const at::Tensor& values) override;
  void leave(const at::Tensor& values, const at::Tensor& to) override;

 protected:
  // What copies between the host's pinned memory and the device that computes; null: the host does. Outlives this.
  explicit MatrixStates(MatrixCopies* copies) : copies_(copies) {}

  // Starts to copy values to parts of the host's memory, with what leave() was given since the last call, and calls
  // `then` when that is done.
  void send(const at::Tensor& values, std::vector<at::Tensor> parts, std::function<void()> then);
  MatrixCopies* copies() const { return copies_; }

 private:
  MatrixCopies* copies_;
  std::vector<MatrixCopies::Left> left_;
};

// In the host's memory: products of matrices would take the host too long.
class HostMatrixStates final : public MatrixStates {
 public:
  // Flat tensors in pinned memory: the weights, then the states.
  HostMatrixStates(std::vector<at::Tensor> states, MatrixCopies& copies)
      : MatrixStates(&copies), states_(std::move(states)) {}

  at::Tensor fetch(std::size_t state, std::int64_t begin, std::int64_t end) override;
  void store(std::size_t state, std::int64_t begin, const at::Tensor& values) override;

 private:
  std::vector<at::Tensor> states_;
};

// In a file. A piece of it stays in memory from the first element that is asked for until all of its weights are
// stored, so that each is read and written once: as many pieces as the matrices at work have, and those that share a
// piece with them.
class DiskMatrixStates final : public MatrixStates {
 public:
  // `weights`: where the file has none, flat; else on the Meta device. `elements`: those that an update stores, before
  // any padding.
  DiskMatrixStates(DiskStates& disk, const at::Tensor& weights, std::int64_t elements, MatrixCopies* copies);

  at::Tensor fetch(std::size_t state, std::int64_t begin, std::int64_t end) override;
  void store(std::size_t state, std::int64_t begin, const at::Tensor& values) override;

 private:
  struct Piece {
    DiskStates::Held held;
    std::int64_t left = 0;  // elements whose weights are to be stored
  };

  bool has(std::size_t state) const { return state > 0 || has_weights_; }
  // A state's place in the pieces; the weights may be in none.
  std::size_t in_piece(std::size_t state) const { return has_weights_ ? state : state - 1; }
  Piece& piece(std::int64_t index);
  // The parts of pieces that have these elements of a state.
  std::vector<at::Tensor> parts(std::size_t state, const FlatInterval& elements);
  // Takes out the pieces whose last weights these are.
  using Pieces = std::map<std::int64_t, Piece>;
  Pieces completed(const FlatInterval& elements);

  DiskStates& disk_;
  at::Tensor weights_;
  bool has_weights_;  // in the file
  std::int64_t elements_;
  Pieces pieces_;
};

}  // namespace llmtrain
