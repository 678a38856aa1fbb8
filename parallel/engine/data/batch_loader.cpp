// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/data/batch_loader.h"

#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_like.h>

#include <cstddef>
#include <span>
#include <utility>

#include "kernels/attention/row_documents.h"

namespace llmtrain {
namespace {

// Columns `offset` + position of [samples, sequence_length + 1] for this rank's positions; flat.
at::Tensor columns(const at::Tensor& read, std::int64_t offset, const DataRank& rank) {
  if (rank.part.is_whole()) return read.narrow(1, offset, rank.sequence_length).reshape({-1});
  std::vector<at::Tensor> pieces;
  for (const auto& [begin, length] : rank.part.runs) pieces.push_back(read.narrow(1, begin + offset, length));
  return at::cat(pieces, 1).reshape({-1});
}

// The sequences of which this rank has so many rows, and each row's position in its document where documents share
// them.
Sequences sequences_of(std::int64_t count, std::int64_t rows, std::vector<kernels::PositionRun> documents,
                       const DataRank& rank) {
  Sequences sequences{.count = count, .length = rows / count, .part = rank.part};
  if (documents.empty()) return sequences;
  std::vector<at::Tensor> positions;
  for (const kernels::PositionRun& document : documents) positions.push_back(at::arange(document.length, at::kLong));
  sequences.positions = columns(at::cat(positions).view({count, rank.sequence_length}), 0, rank);
  sequences.documents = std::move(documents);
  return sequences;
}

// Samples, or sequences that were cut out of them: rows of one token more than a sequence has, since targets are the
// tokens shifted by one. Where documents are kept apart, `starts` is 1 for each token that begins one.
struct Samples {
  at::Tensor tokens;
  at::Tensor starts;  // undefined where they are not
};

Samples read_samples(const Dataset& dataset, std::int64_t length, std::int64_t first, std::int64_t count,
                     std::int64_t percent) {
  const std::int64_t width = length + 1;
  Samples read{at::empty({count, width}, at::kLong), {}};
  if (dataset.document_end()) read.starts = at::empty_like(read.tokens);
  for (std::int64_t i = 0; i < count; ++i) {
    const auto row = [i, width](const at::Tensor& rows) {
      return std::span(rows.data_ptr<std::int64_t>() + i * width, static_cast<std::size_t>(width));
    };
    dataset.read(first + i, row(read.tokens), percent);
    if (read.starts.defined()) dataset.mark_documents(first + i, row(read.tokens), row(read.starts), percent);
  }
  return read;
}

// The sequences of a shape, from rows of samples [count, S + 1]: StepShapes describes them. [sequences, length + 1].
at::Tensor cut_rows(const at::Tensor& rows, const StepShape& shape) {
  const std::int64_t count = rows.size(0), whole = rows.size(1) - 1, length = shape.sequence_length;
  if (shape.sequences == count) return rows.narrow(1, 0, length + 1);
  const std::int64_t each = whole / length, further = shape.sequences - count * each;
  const at::Tensor filled = rows.unfold(1, length + 1, length).reshape({count * each, length + 1});
  return at::cat({filled, rows.narrow(0, 0, further).narrow(1, whole - length, length + 1)});
}

Samples cut_samples(const Samples& samples, const StepShape& shape) {
  return {cut_rows(samples.tokens, shape), samples.starts.defined() ? cut_rows(samples.starts, shape) : at::Tensor()};
}

// The documents of sequences, of whose tokens [count, length + 1] `starts` says which begin one; the first of a
// sequence always does. As in Megatron-LM, the target of a document's last token is the next document's first.
std::vector<kernels::PositionRun> documents_of(const at::Tensor& starts) {
  const std::int64_t width = starts.size(1), length = width - 1;
  std::vector<kernels::PositionRun> documents;
  for (std::int64_t sequence = 0; sequence < starts.size(0); ++sequence) {
    const std::int64_t* const is_first = starts.const_data_ptr<std::int64_t>() + sequence * width;
    std::int64_t begin = 0;
    for (std::int64_t next = 1; next <= length; ++next) {
      if (next < length && is_first[next] == 0) continue;
      documents.push_back({sequence * length + begin, next - begin});
      begin = next;
    }
  }
  return documents;
}

// From sequences of rank.sequence_length tokens.
Batch make_batch(const Samples& read, const DataRank& rank) {
  Batch batch;
  batch.field(BatchField::token_ids) = columns(read.tokens, 0, rank);
  batch.field(BatchField::targets) = columns(read.tokens, 1, rank);
  std::vector<kernels::PositionRun> documents;
  if (read.starts.defined()) documents = documents_of(read.starts.contiguous());
  const std::int64_t rows = batch.field(BatchField::token_ids).size(0);
  batch.rows = {sequences_of(read.tokens.size(0), rows, std::move(documents), rank)};
  return batch;
}

Batch load_labelled(const Dataset& dataset, const DataRank& rank, std::int64_t first, std::int64_t count) {
  const std::int64_t length = rank.sequence_length;
  const at::Tensor tokens = at::empty({count, length}, at::kLong), targets = at::empty_like(tokens);
  const auto row = [length](const at::Tensor& rows, std::int64_t i) {
    return std::span<std::int64_t>(rows.data_ptr<std::int64_t>() + i * length, static_cast<std::size_t>(length));
  };
  std::vector<kernels::PositionRun> documents;
  for (std::int64_t i = 0; i < count; ++i)
    for (const DocumentRows& rows : dataset.read_labelled(first + i, {row(tokens, i), row(targets, i)}))
      documents.push_back({i * length + rows.begin, rows.length});
  Batch batch;
  batch.field(BatchField::token_ids) = columns(tokens, 0, rank);
  const at::Tensor labels = columns(targets, 0, rank);
  // Found on the host, as the device would have to be waited for.
  batch.field(BatchField::counted_rows) = labels.ne(not_counted).nonzero().squeeze(1);
  batch.field(BatchField::targets) = labels.clamp_min(0);
  batch.rows = {sequences_of(count, labels.size(0), std::move(documents), rank)};
  return batch;
}

Batch load_on_host(const Dataset& dataset, const DataRank& rank, std::int64_t first, std::int64_t count,
                   std::int64_t percent) {
  if (dataset.is_labelled()) return load_labelled(dataset, rank, first, count);
  return make_batch(read_samples(dataset, rank.sequence_length, first, count, percent), rank);
}

// Calls work(tensor) for each of those that batches read from their data and have.
template <class Work>
void for_tensors(std::vector<PassInput>& micros, Work work) {
  const auto visit = [&](at::Tensor& tensor) {
    if (tensor.defined()) work(tensor);
  };
  for (PassInput& micro : micros) {
    for (at::Tensor& field : micro.batch.fields) visit(field);
    for (Sequences& sequences : micro.batch.rows) visit(sequences.positions);
  }
}

std::vector<PassInput> on_device(std::vector<PassInput> micros, const at::Device& device) {
  return device.is_cpu() ? std::move(micros) : PackedBatch(std::move(micros)).send(device);
}

}  // namespace

PackedBatch::PackedBatch(std::vector<PassInput> micros) : micros_(std::move(micros)) {
  std::vector<at::Tensor> tensors;
  for_tensors(micros_, [&](const at::Tensor& tensor) { tensors.push_back(tensor); });
  tensors_ = PackedTensors(tensors);
  // Freed by the thread that has made them, which LibTorch's memory profiler asks for.
  for_tensors(micros_, [](at::Tensor& tensor) { tensor = at::empty({0}, at::kLong); });
}

std::vector<PassInput> PackedBatch::send(const at::Device& device) {
  const std::vector<at::Tensor> sent = tensors_.send(device);
  std::size_t next = 0;
  for_tensors(micros_, [&](at::Tensor& tensor) { tensor = sent[next++]; });
  for (PassInput& micro : micros_)
    for (Sequences& sequences : micro.batch.rows)
      sequences.document_starts = kernels::document_starts(sequences.documents, device);
  return std::move(micros_);
}

DataRank data_rank(const RankGroups& groups, std::int64_t sequence_length) {
  const int context = groups.context.ranks();
  return {groups.data.position() / context, groups.data.ranks() / context, sequence_length,
          groups.context.part(sequence_length)};
}

Batch load_samples(const Dataset& dataset, const DataRank& rank, std::int64_t first, std::int64_t count,
                   const at::Device& device, std::int64_t easiest_percent) {
  std::vector<PassInput> inputs;
  inputs.push_back({load_on_host(dataset, rank, first, count, easiest_percent), {}});
  return std::move(on_device(std::move(inputs), device).front().batch);
}

std::vector<PassInput> load_batch(const Dataset& dataset, const Recipe& recipe, const BatchPlace& place,
                                  const DataRank& rank, const at::Device& device) {
  const BatchRecipe& batch = recipe.batch;
  // Consecutive shares of the same samples: what a step trains on does not depend on the number of data ranks.
  const std::int64_t share = batch.global / rank.ranks, begin = rank.position * share;
  const StepShape& shape = place.shape;
  const bool is_cut = shape.sequence_length != batch.sequence_length;
  const std::int64_t rows = tokens_of_step(recipe, shape);
  const std::int64_t counted = is_cut ? rows : dataset.counted(place.first_sample, batch.global);
  const auto load = [&](std::int64_t first) {
    const std::int64_t percent = place.easiest_percent;
    if (!is_cut) return load_on_host(dataset, rank, first, batch.micro, percent);
    const Samples samples = read_samples(dataset, batch.sequence_length, first, batch.micro, percent);
    return make_batch(cut_samples(samples, shape), rank);
  };
  std::vector<PassInput> micros;
  for (std::int64_t first = begin; first < begin + share; first += batch.micro) {
    PassContext context{.seed = recipe.seed, .step = place.step, .kept_tokens = shape.kept_tokens};
    context.first_sample = first / batch.micro * shape.sequences;
    // The mean over the global batch: summing over micro-batches and ranks needs no further division.
    context.loss_gradients = {1.0 / static_cast<double>(counted)};
    context.batch_rows = static_cast<double>(rows);
    micros.push_back({load(place.first_sample + first), std::move(context)});
  }
  return on_device(std::move(micros), device);
}

}  // namespace llmtrain
