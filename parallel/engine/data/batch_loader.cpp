// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/data/batch_loader.h"

#include <ATen/Parallel.h>
#include <ATen/ops/arange.h>
#include <ATen/ops/cat.h>
#include <ATen/ops/empty.h>

#include <array>
#include <cstddef>
#include <exception>
#include <memory>
#include <span>
#include <utility>

#include "kernels/attention/row_documents.h"
#include "parallel/shard/tensor_array.h"

namespace llmtrain {
namespace {

// From rows [count, length, ...] of whole sequences takes those of this rank, one after another.
at::Tensor own_rows(const at::Tensor& rows, const kernels::SequencePart& part) {
  if (part.is_whole()) return rows.flatten(0, 1);
  std::vector<at::Tensor> pieces;
  for (const auto& [begin, length] : part.runs) pieces.push_back(rows.narrow(1, begin, length));
  return at::cat(pieces, 1).flatten(0, 1);
}

// The documents of sequences, of whose rows [count, length] `starts` says which begin one; the first of a sequence
// always does.
std::vector<kernels::PositionRun> documents_of(const at::Tensor& starts) {
  const std::int64_t length = starts.size(1);
  std::vector<kernels::PositionRun> documents;
  for (std::int64_t sequence = 0; sequence < starts.size(0); ++sequence) {
    const std::int64_t* const is_first = starts.const_data_ptr<std::int64_t>() + sequence * length;
    std::int64_t begin = 0;
    for (std::int64_t next = 1; next <= length; ++next) {
      if (next < length && is_first[next] == 0) continue;
      documents.push_back({sequence * length + begin, next - begin});
      begin = next;
    }
  }
  return documents;
}

// This rank's part of `count` sequences, and each row's position in its document where `starts` says that documents
// share them.
Sequences sequences_of(std::int64_t count, std::int64_t length, const at::Tensor& starts,
                       const kernels::SequencePart& part) {
  Sequences sequences{.count = count, .length = length, .part = part};
  if (!part.is_whole()) {
    sequences.length = 0;
    for (const kernels::PositionRun& run : part.runs) sequences.length += run.length;
  }
  if (!starts.defined()) return sequences;
  sequences.documents = documents_of(starts);
  std::vector<at::Tensor> positions;
  for (const kernels::PositionRun& document : sequences.documents)
    positions.push_back(at::arange(document.length, at::kLong));
  sequences.positions = own_rows(at::cat(positions).view({count, length}), part);
  return sequences;
}

// Whole samples as they are read: [count, ...] of each.
struct ReadSamples {
  std::array<at::Tensor, batch_field_names.size()> fields;
  std::vector<at::Tensor> starts;  // by sequence; undefined where each is one document
};

// The memory of one of the samples in a tensor.
template <class Value>
std::span<Value> memory_of(const at::Tensor& samples, std::int64_t sample) {
  if (!samples.defined()) return {};
  const std::size_t bytes = samples.nbytes() / static_cast<std::size_t>(samples.size(0));
  auto* const begin = static_cast<std::byte*>(samples.data_ptr()) + static_cast<std::size_t>(sample) * bytes;
  return {reinterpret_cast<Value*>(begin), bytes / sizeof(Value)};
}

// Calls work(i) for each number below `count`, with the threads that LibTorch computes with. Throws what the lowest of
// them throws whose work has failed, so that a message does not depend on the threads.
template <class Work>
void for_each_in_threads(std::int64_t count, Work work) {
  std::vector<std::exception_ptr> errors(static_cast<std::size_t>(count));
  at::parallel_for(0, count, 1, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) {
      try {
        work(i);
      } catch (...) {
        errors[static_cast<std::size_t>(i)] = std::current_exception();
      }
    }
  });
  for (const std::exception_ptr& error : errors)
    if (error) std::rethrow_exception(error);
}

ReadSamples read_samples(const SampleSource& samples, const FieldSet& fields, std::int64_t first, std::int64_t count) {
  ReadSamples read;
  for (const SampleField& field : samples.fields()) {
    if (!fields[index_of(field.name)]) continue;
    std::vector<std::int64_t> shape{count};
    shape.insert(shape.end(), field.shape.begin(), field.shape.end());
    read.fields[index_of(field.name)] = at::empty(shape, scalar_type(field.type));
  }
  for (const SampleSequence& sequence : samples.sequences())
    read.starts.push_back(sequence.has_documents ? at::empty({count, sequence.length}, at::kLong) : at::Tensor());
  const auto read_one = [&](std::int64_t i) {
    FieldMemory memory;
    for (std::size_t field = 0; field < read.fields.size(); ++field)
      memory.fields[field] = memory_of<std::byte>(read.fields[field], i);
    for (const at::Tensor& starts : read.starts) memory.document_starts.push_back(memory_of<std::int64_t>(starts, i));
    samples.read(first + i, memory);
  };
  // Images are decoded, which takes longer than a thread's start; of others a sample is a copy of a few rows.
  if (read.fields[index_of(BatchField::pixels)].defined())
    for_each_in_threads(count, read_one);
  else
    for (std::int64_t i = 0; i < count; ++i) read_one(i);
  return read;
}

Batch load_on_host(const SampleSource& samples, const DataRank& rank, std::int64_t first, std::int64_t count) {
  ReadSamples read = read_samples(samples, rank.fields, first, count);
  Batch batch;
  for (const SampleField& field : samples.fields()) {
    const at::Tensor& values = read.fields[index_of(field.name)];
    if (values.defined()) batch.field(field.name) = field.sequence ? own_rows(values, rank.part) : values;
  }
  at::Tensor& counted = batch.field(BatchField::counted_rows);
  // From marks. Found on the host, as the device would have to be waited for.
  if (counted.defined()) counted = counted.nonzero().squeeze(1);
  for (std::size_t i = 0; i < read.starts.size(); ++i)
    batch.rows.push_back(sequences_of(count, samples.sequences()[i].length, read.starts[i], rank.part));
  return batch;
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

// The gradients of means over the global batch: summing over micro-batches and ranks needs no further division.
std::vector<double> loss_gradients(const SampleSource& samples, std::span<const LossTerm> terms) {
  std::vector<double> gradients;
  for (std::size_t term = 0; term < terms.size(); ++term)
    gradients.push_back(terms[term].coefficient / samples.weight(term, 0, samples.samples()));
  return gradients;
}

void add_documents(Sequences& sequences, const at::Device& device) {
  if (sequences.documents.empty()) return;
  if (sequences.part.is_whole())
    sequences.document_starts = kernels::document_starts(sequences.documents, device);
  else
    sequences.document_pieces = std::make_shared<const kernels::DocumentPieces>(
        kernels::document_pieces(sequences.documents, sequences.part, sequences.length, device));
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
    for (Sequences& sequences : micro.batch.rows) add_documents(sequences, device);
  return std::move(micros_);
}

DataRank data_rank(const RankGroups& groups, std::int64_t sequence_length, const FieldSet& fields) {
  const int context = groups.context.ranks();
  return {groups.data.position() / context, groups.data.ranks() / context, groups.context.part(sequence_length),
          fields};
}

Batch load_samples(const SampleSource& samples, const DataRank& rank, std::int64_t first, std::int64_t count,
                   const at::Device& device) {
  std::vector<PassInput> inputs;
  inputs.push_back({load_on_host(samples, rank, first, count), {}});
  return std::move(on_device(std::move(inputs), device).front().batch);
}

std::vector<PassInput> load_batch(const SampleSource& samples, std::span<const LossTerm> terms, const Recipe& recipe,
                                  const BatchPlace& place, const DataRank& rank, const at::Device& device) {
  const StepShape& shape = place.shape;
  // Consecutive shares of the same samples: what a step trains on does not depend on the number of data ranks.
  const std::int64_t share = samples.samples() / rank.ranks, begin = rank.position * share;
  const std::vector<double> gradients = loss_gradients(samples, terms);
  std::vector<PassInput> micros;
  for (std::int64_t first = begin; first < begin + share; first += shape.sequences) {
    PassContext context{.seed = recipe.seed, .step = place.step, .kept_tokens = shape.kept_tokens};
    context.first_sample = first;
    context.loss_gradients = gradients;
    context.label_smoothing = recipe.training.label_smoothing;
    context.batch_rows = static_cast<double>(tokens_of_step(recipe, shape));
    micros.push_back({load_on_host(samples, rank, first, shape.sequences), std::move(context)});
  }
  return on_device(std::move(micros), device);
}

}  // namespace llmtrain
