// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/offload/matrix_states.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <functional>
#include <memory>

namespace llmtrain {

at::Tensor MatrixStates::bring(const at::Tensor& values) {
  return copies_ != nullptr && values.is_cpu() ? copies_->bring({values}) : values;
}

void MatrixStates::leave(const at::Tensor& values, const at::Tensor& to) {
  if (copies_ == nullptr || !to.is_cpu()) {
    to.copy_(values);
    return;
  }
  left_.push_back({values, {to}});
}

void MatrixStates::send(const at::Tensor& values, std::vector<at::Tensor> parts, std::function<void()> then) {
  left_.push_back({values, std::move(parts)});
  copies_->leave(std::exchange(left_, {}), std::move(then));
}

at::Tensor HostMatrixStates::fetch(std::size_t state, std::int64_t begin, std::int64_t end) {
  return copies()->bring({states_.at(state).slice(0, begin, end)});
}

void HostMatrixStates::store(std::size_t state, std::int64_t begin, const at::Tensor& values) {
  send(values, {states_.at(state).slice(0, begin, begin + values.numel())}, {});
}

DiskMatrixStates::DiskMatrixStates(DiskStates& disk, const at::Tensor& weights, std::int64_t elements,
                                   MatrixCopies* copies)
    : MatrixStates(copies), disk_(disk), weights_(weights), has_weights_(weights.is_meta()), elements_(elements) {}

DiskMatrixStates::Piece& DiskMatrixStates::piece(std::int64_t index) {
  const auto known = pieces_.find(index);
  if (known != pieces_.end()) return known->second;
  const FlatInterval all = intersection(disk_.pieces().piece(index), {0, elements_});
  return pieces_.try_emplace(index, Piece{disk_.read_piece(index), all.count()}).first->second;
}

std::vector<at::Tensor> DiskMatrixStates::parts(std::size_t state, const FlatInterval& elements) {
  if (!has(state)) return {weights_.slice(0, elements.begin, elements.end)};
  if (elements.count() == 0) return {at::empty({0}, at::TensorOptions(at::kFloat))};
  std::vector<at::Tensor> parts;
  for (std::int64_t i = elements.begin / StatePieces::most; i * StatePieces::most < elements.end; ++i) {
    const FlatInterval all = disk_.pieces().piece(i), part = intersection(all, elements);
    parts.push_back(piece(i).held.states.at(in_piece(state)).slice(0, part.begin - all.begin, part.end - all.begin));
  }
  return parts;
}

at::Tensor DiskMatrixStates::fetch(std::size_t state, std::int64_t begin, std::int64_t end) {
  const std::vector<at::Tensor> from = parts(state, {begin, end});
  if (copies() != nullptr) return copies()->bring(from);
  // What is not in the file is changed in place.
  return has(state) ? at::cat(from) : from.front();
}

DiskMatrixStates::Pieces DiskMatrixStates::completed(const FlatInterval& elements) {
  Pieces completed;
  for (std::int64_t i = elements.begin / StatePieces::most; i * StatePieces::most < elements.end; ++i) {
    Piece& of = piece(i);
    of.left -= intersection(disk_.pieces().piece(i), elements).count();
    if (of.left > 0) continue;
    completed.insert(pieces_.extract(i));
  }
  return completed;
}

void DiskMatrixStates::store(std::size_t state, std::int64_t begin, const at::Tensor& values) {
  const FlatInterval elements{begin, begin + values.numel()};
  std::vector<at::Tensor> to = parts(state, elements);
  std::function<void()> write;
  if (state == 0)
    write = [&disk = disk_, done = std::make_shared<Pieces>(completed(elements))] {
      for (auto& [index, piece] : *done) disk.write_piece(index, std::move(piece.held));
    };
  if (copies() != nullptr) return send(values, std::move(to), std::move(write));
  std::int64_t first = 0;
  for (const at::Tensor& part : to) {
    const at::Tensor from = values.slice(0, first, first + part.numel());
    if (part.data_ptr() != from.data_ptr()) part.copy_(from);
    first += part.numel();
  }
  if (write) write();
}

}  // namespace llmtrain
