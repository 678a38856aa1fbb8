// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "core/base/batch_field.h"
#include "core/base/element_type.h"

namespace llmtrain {

// A sequence of rows that each sample has: of tokens, say.
struct SampleSequence {
  std::int64_t length = 0;     // in rows
  bool has_documents = false;  // several may share it, of which padding is one; else it is one
  bool can_be_cut = false;     // read() reads parts of it, too, and all its rows count in the loss
};

// What a source has of each sample. Of counted_rows a sample has a mark for each row, 1 where it counts and else 0, of
// which a batch makes indices.
struct SampleField {
  BatchField name{};
  ElementType type = ElementType::int64;
  std::vector<std::int64_t> shape;      // of one sample
  std::optional<std::size_t> sequence;  // whose rows are its first axis; none: it is of the sample as a whole
};

// Where a sample is written: whole, or the rows of a sequence that can be cut from `first_row` on, as many as there is
// memory for. What has no memory is not asked for.
struct FieldMemory {
  std::array<std::span<std::byte>, batch_field_names.size()> fields{};
  // By sequence, 1 for each row that begins a document and else 0; the first row begins one, whatever is written there.
  std::vector<std::span<std::int64_t>> document_starts{};
  std::int64_t first_row = 0;

  template <class Value>
  std::span<Value> values(BatchField field) const {
    const std::span<std::byte> memory = fields[index_of(field)];
    return {reinterpret_cast<Value*>(memory.data()), memory.size() / sizeof(Value)};
  }
  template <class Value>
  void set(BatchField field, std::span<Value> memory) {
    fields[index_of(field)] = std::as_writable_bytes(memory);
  }
  // Where documents begin in a sample of one sequence; empty where that is not asked for.
  std::span<std::int64_t> starts() const {
    return document_starts.empty() ? std::span<std::int64_t>() : document_starts.front();
  }
};

// Samples in an order without end, each a pure function of the source, what it has been made with (a seed, say) and its
// number from 0. Immutable while it is read; any thread may read.
class SampleSource {
 public:
  virtual ~SampleSource() = default;

  // The same for all samples, and for as long as the source lives.
  virtual std::span<const SampleField> fields() const = 0;
  virtual std::span<const SampleSequence> sequences() const = 0;
  // How many there are until each has been read once.
  virtual std::int64_t samples() const = 0;
  // Blocks while a disk is read. Throws Error(bad_data) for what is not valid, and std::invalid_argument for a negative
  // number and memory of another size.
  virtual void read(std::int64_t number, const FieldMemory& into) const = 0;
  // What `count` samples from number `first` on weigh in the mean of loss term number `term` (Graph::row_losses()): how
  // many of their rows count. Known before any is read, since gradients are made with it in the first forward.
  virtual double weight(std::size_t term, std::int64_t first, std::int64_t count) const = 0;

 protected:
  SampleSource() = default;
  SampleSource(const SampleSource&) = default;
  SampleSource(SampleSource&&) = default;
  SampleSource& operator=(const SampleSource&) = default;
  SampleSource& operator=(SampleSource&&) = default;
};

}  // namespace llmtrain
