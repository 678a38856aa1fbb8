// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/batch_loader.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <span>
#include <utility>

namespace llmtrain {
namespace {

// Columns `offset` + position of [samples, sequence_length + 1] for this rank's positions; flat, on the device.
at::Tensor columns(const at::Tensor& read, std::int64_t offset, const DataRank& rank, const at::Device& device) {
  if (rank.part.is_whole()) return read.narrow(1, offset, rank.sequence_length).reshape({-1}).to(device);
  std::vector<at::Tensor> pieces;
  for (const auto& [begin, length] : rank.part.runs) pieces.push_back(read.narrow(1, begin + offset, length));
  return at::cat(pieces, 1).reshape({-1}).to(device);
}

void set_place(MicroBatch& micro, std::int64_t count, const DataRank& rank) {
  micro.batch = count;
  micro.sequence = micro.tokens.size(0) / count;
  micro.part = rank.part;
}

// The documents that share sequences, and the position of each of this rank's rows in its document.
void add_documents(MicroBatch& micro, std::vector<kernels::PositionRun> documents, const DataRank& rank,
                   const at::Device& device) {
  if (documents.empty()) return;
  std::vector<at::Tensor> positions;
  for (const kernels::PositionRun& document : documents) positions.push_back(at::arange(document.length, at::kLong));
  micro.positions = columns(at::cat(positions).view({micro.batch, rank.sequence_length}), 0, rank, device);
  micro.documents = std::move(documents);
}

// One token more than a sequence has: targets are the tokens shifted by one.
at::Tensor read_samples(const Dataset& dataset, std::int64_t length, std::int64_t first, std::int64_t count,
                        std::int64_t percent) {
  const std::int64_t width = length + 1;
  at::Tensor read = at::empty({count, width}, at::kLong);
  auto* tokens = read.mutable_data_ptr<std::int64_t>();
  for (std::int64_t i = 0; i < count; ++i)
    dataset.read(first + i, std::span<std::int64_t>(tokens + i * width, static_cast<std::size_t>(width)), percent);
  return read;
}

// The sequences of a shape, from samples [count, S + 1]: StepShapes describes them. [sequences, length + 1].
at::Tensor cut_samples(const at::Tensor& samples, const StepShape& shape) {
  const std::int64_t count = samples.size(0), whole = samples.size(1) - 1, length = shape.sequence_length;
  if (shape.sequences == count) return samples.narrow(1, 0, length + 1);
  const std::int64_t each = whole / length, further = shape.sequences - count * each;
  const at::Tensor filled = samples.unfold(1, length + 1, length).reshape({count * each, length + 1});
  return at::cat({filled, samples.narrow(0, 0, further).narrow(1, whole - length, length + 1)});
}

// The documents of sequences [count, length + 1], each of which goes on up to and with the token `end`. As in
// Megatron-LM, that token's target is the next document's first.
std::vector<kernels::PositionRun> documents_of(const at::Tensor& read, std::int64_t end) {
  const std::int64_t width = read.size(1), length = width - 1;
  std::vector<kernels::PositionRun> documents;
  for (std::int64_t sequence = 0; sequence < read.size(0); ++sequence) {
    const std::int64_t* const tokens = read.const_data_ptr<std::int64_t>() + sequence * width;
    std::int64_t begin = 0;
    for (std::int64_t i = 0; i < length; ++i) {
      if (tokens[i] != end && i != length - 1) continue;
      documents.push_back({sequence * length + begin, i + 1 - begin});
      begin = i + 1;
    }
  }
  return documents;
}

// From sequences [count, rank.sequence_length + 1].
MicroBatch make_micro_batch(const Dataset& dataset, const at::Tensor& read, const DataRank& rank,
                            const at::Device& device) {
  MicroBatch micro;
  micro.tokens = columns(read, 0, rank, device);
  micro.targets = columns(read, 1, rank, device);
  set_place(micro, read.size(0), rank);
  if (dataset.document_end())
    add_documents(micro, documents_of(read.contiguous(), *dataset.document_end()), rank, device);
  return micro;
}

MicroBatch load_labelled(const Dataset& dataset, const DataRank& rank, std::int64_t first, std::int64_t count,
                         const at::Device& device) {
  const std::int64_t length = rank.sequence_length;
  const at::Tensor tokens = at::empty({count, length}, at::kLong), targets = at::empty_like(tokens);
  const auto row = [length](const at::Tensor& rows, std::int64_t i) {
    return std::span<std::int64_t>(rows.data_ptr<std::int64_t>() + i * length, static_cast<std::size_t>(length));
  };
  std::vector<kernels::PositionRun> documents;
  for (std::int64_t i = 0; i < count; ++i)
    for (const DocumentRows& rows : dataset.read_labelled(first + i, {row(tokens, i), row(targets, i)}))
      documents.push_back({i * length + rows.begin, rows.length});
  MicroBatch micro;
  micro.tokens = columns(tokens, 0, rank, device);
  const at::Tensor labels = columns(targets, 0, rank, at::kCPU);
  // Found on the host, as the device would have to be waited for.
  micro.counted_rows = labels.ne(not_counted).nonzero().squeeze(1).to(device);
  micro.targets = labels.clamp_min(0).to(device);
  set_place(micro, count, rank);
  add_documents(micro, std::move(documents), rank, device);
  return micro;
}

}  // namespace

DataRank data_rank(const RankGroups& groups, std::int64_t sequence_length) {
  const int context = groups.context.ranks();
  return {groups.data.position() / context, groups.data.ranks() / context, sequence_length,
          groups.context.part(sequence_length)};
}

MicroBatch load_micro_batch(const Dataset& dataset, const DataRank& rank, std::int64_t first, std::int64_t count,
                            const at::Device& device, std::int64_t easiest_percent) {
  if (dataset.is_labelled()) return load_labelled(dataset, rank, first, count, device);
  const at::Tensor samples = read_samples(dataset, rank.sequence_length, first, count, easiest_percent);
  return make_micro_batch(dataset, samples, rank, device);
}

std::vector<MicroBatch> load_batch(const Dataset& dataset, const Recipe& recipe, const BatchPlace& place,
                                   const DataRank& rank, const at::Device& device) {
  const BatchRecipe& batch = recipe.batch;
  // Consecutive shares of the same samples: what a step trains on does not depend on the number of data ranks.
  const std::int64_t share = batch.global / rank.ranks, begin = rank.position * share;
  // The mean over the global batch: summing over micro-batches and ranks needs no further division.
  const StepShape& shape = place.shape;
  const bool is_cut = shape.sequence_length != batch.sequence_length;
  const std::int64_t counted =
      is_cut ? tokens_of_step(recipe, shape) : dataset.counted(place.first_sample, batch.global);
  const auto load = [&](std::int64_t first) {
    const std::int64_t percent = place.easiest_percent;
    if (!is_cut) return load_micro_batch(dataset, rank, first, batch.micro, device, percent);
    const at::Tensor samples = read_samples(dataset, batch.sequence_length, first, batch.micro, percent);
    return make_micro_batch(dataset, cut_samples(samples, shape), rank, device);
  };
  std::vector<MicroBatch> micros;
  for (std::int64_t first = begin; first < begin + share; first += batch.micro) {
    micros.push_back(load(place.first_sample + first));
    MicroBatch& micro = micros.back();
    micro.seed = recipe.seed;
    micro.step = place.step;
    micro.kept_tokens = shape.kept_tokens;
    micro.first_sample = first / batch.micro * shape.sequences;
    micro.loss_scale = 1.0 / static_cast<double>(counted);
  }
  return micros;
}

}  // namespace llmtrain
