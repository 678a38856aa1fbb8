// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/batch_loader.h"

#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <span>

namespace llmtrain {
namespace {

// Columns `offset` + position of [samples, sequence_length + 1] for this rank's positions; flat, on the device.
at::Tensor columns(const at::Tensor& read, std::int64_t offset, const SampleRange& samples, const at::Device& device) {
  if (samples.part.is_whole()) return read.narrow(1, offset, samples.sequence_length).reshape({-1}).to(device);
  std::vector<at::Tensor> pieces;
  for (const auto& [begin, length] : samples.part.runs) pieces.push_back(read.narrow(1, begin + offset, length));
  return at::cat(pieces, 1).reshape({-1}).to(device);
}

}  // namespace

DataRank data_rank(const RankGroups& groups, std::int64_t sequence_length) {
  const int context = groups.context.ranks();
  return {groups.data.position() / context, groups.data.ranks() / context, groups.context.part(sequence_length)};
}

MicroBatch load_micro_batch(const Dataset& dataset, const SampleRange& samples, const at::Device& device) {
  // One token more than the sequence: targets are the tokens shifted by one.
  const std::int64_t width = samples.sequence_length + 1;
  const at::Tensor read = at::empty({samples.count, width}, at::kLong);
  std::int64_t* tokens = read.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < samples.count; ++i)
    dataset.read(samples.first + i, std::span<std::int64_t>(tokens + i * width, static_cast<std::size_t>(width)));
  MicroBatch micro;
  micro.tokens = columns(read, 0, samples, device);
  micro.targets = columns(read, 1, samples, device);
  micro.batch = samples.count;
  micro.sequence = micro.tokens.size(0) / samples.count;
  micro.part = samples.part;
  return micro;
}

std::vector<MicroBatch> load_batch(const Dataset& dataset, const Recipe& recipe, const BatchPlace& place,
                                   const DataRank& rank, const at::Device& device) {
  const BatchRecipe& batch = recipe.batch;
  const std::int64_t share = batch.global / rank.ranks, begin = rank.position * share;
  std::vector<MicroBatch> micros;
  for (std::int64_t first = begin; first < begin + share; first += batch.micro) {
    const SampleRange samples{place.first_sample + first, batch.micro, batch.sequence_length, rank.part};
    micros.push_back(load_micro_batch(dataset, samples, device));
    MicroBatch& micro = micros.back();
    micro.seed = recipe.seed;
    micro.step = place.step;
    micro.first_sample = first;
    // The mean over the global batch: summing over micro-batches and ranks needs no further division.
    micro.loss_scale = 1.0 / static_cast<double>(batch.global * batch.sequence_length);
  }
  return micros;
}

}  // namespace llmtrain
