// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/states/offload/matrix_states.h"

#include <ATen/ops/empty.h>

#include <utility>

namespace llmtrain {

HostMatrixStates::HostMatrixStates(std::vector<at::Tensor> states, const at::Device& device)
    : states_(std::move(states)), device_(device) {}

at::Tensor HostMatrixStates::fetch(std::size_t state, std::int64_t begin, std::int64_t end) {
  return states_.at(state).slice(0, begin, end).to(device_);
}

void HostMatrixStates::store(std::size_t state, std::int64_t begin, const at::Tensor& values) {
  states_.at(state).slice(0, begin, begin + values.numel()).copy_(values);
}

DiskMatrixStates::DiskMatrixStates(DiskStates& disk, const at::Tensor& weights, std::int64_t elements,
                                   const at::Device& device)
    : disk_(disk), weights_(weights), has_weights_(weights.is_meta()), elements_(elements), device_(device) {}

DiskMatrixStates::Piece& DiskMatrixStates::piece(std::int64_t index) {
  const auto known = pieces_.find(index);
  if (known != pieces_.end()) return known->second;
  const FlatInterval all = intersection(disk_.pieces().piece(index), {0, elements_});
  return pieces_.try_emplace(index, Piece{disk_.read_piece(index), all.count()}).first->second;
}

template <class Work>
void DiskMatrixStates::for_parts(std::size_t state, const FlatInterval& elements, Work work) {
  for (std::int64_t i = elements.begin / StatePieces::most; i * StatePieces::most < elements.end; ++i) {
    const FlatInterval all = disk_.pieces().piece(i), part = intersection(all, elements);
    const at::Tensor& values = piece(i).held.states.at(in_piece(state));
    work(i, values.slice(0, part.begin - all.begin, part.end - all.begin),
         FlatInterval{part.begin - elements.begin, part.end - elements.begin});
  }
}

at::Tensor DiskMatrixStates::fetch(std::size_t state, std::int64_t begin, std::int64_t end) {
  if (state == 0 && !has_weights_) return weights_.slice(0, begin, end).to(device_);
  at::Tensor values = at::empty({end - begin}, at::TensorOptions(at::kFloat));
  for_parts(state, {begin, end}, [&](std::int64_t, const at::Tensor& from, const FlatInterval& part) {
    values.slice(0, part.begin, part.end).copy_(from);
  });
  return values.to(device_);
}

void DiskMatrixStates::store(std::size_t state, std::int64_t begin, const at::Tensor& values) {
  const FlatInterval elements{begin, begin + values.numel()};
  if (state > 0 || has_weights_) {
    for_parts(state, elements, [&](std::int64_t, const at::Tensor& to, const FlatInterval& part) {
      to.copy_(values.slice(0, part.begin, part.end));
    });
  } else {
    // Changed in place, unless they were fetched to another device.
    const at::Tensor to = weights_.slice(0, elements.begin, elements.end);
    if (!to.is_same(values) && to.data_ptr() != values.data_ptr()) to.copy_(values);
  }
  if (state > 0) return;
  for (std::int64_t i = elements.begin / StatePieces::most; i * StatePieces::most < elements.end; ++i) {
    Piece& of = piece(i);
    of.left -= intersection(disk_.pieces().piece(i), elements).count();
    if (of.left > 0) continue;
    disk_.write_piece(i, of.held);
    pieces_.erase(i);
  }
}

}  // namespace llmtrain
