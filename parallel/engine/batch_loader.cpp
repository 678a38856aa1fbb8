// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/batch_loader.h"

#include <ATen/ops/empty.h>

#include <span>

namespace llmtrain {

MicroBatch load_micro_batch(const Dataset& dataset, const SampleRange& samples, const at::Device& device) {
  const std::int64_t width = samples.sequence_length + 1;
  const at::Tensor read = at::empty({samples.count, width}, at::kLong);
  std::int64_t* tokens = read.data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < samples.count; ++i)
    dataset.read(samples.first + i, std::span<std::int64_t>(tokens + i * width, static_cast<std::size_t>(width)));
  MicroBatch micro;
  micro.tokens = read.narrow(1, 0, samples.sequence_length).reshape({-1}).to(device);
  micro.targets = read.narrow(1, 1, samples.sequence_length).reshape({-1}).to(device);
  micro.batch = samples.count;
  micro.sequence = samples.sequence_length;
  return micro;
}

std::vector<MicroBatch> load_batch(const Dataset& dataset, const Recipe& recipe, std::int64_t step,
                                   const DataRank& rank, const at::Device& device) {
  const BatchRecipe& batch = recipe.batch;
  const std::int64_t share = batch.global / rank.ranks, begin = rank.position * share;
  std::vector<MicroBatch> micros;
  for (std::int64_t first = begin; first < begin + share; first += batch.micro) {
    micros.push_back(
        load_micro_batch(dataset, {step * batch.global + first, batch.micro, batch.sequence_length}, device));
    MicroBatch& micro = micros.back();
    micro.seed = recipe.seed;
    micro.step = step;
    micro.first_sample = first;
    micro.loss_scale = 1.0 / static_cast<double>(batch.global * batch.sequence_length);
  }
  return micros;
}

}  // namespace llmtrain
