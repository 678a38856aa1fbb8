// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <ATen/core/Tensor.h>

#include <array>
#include <vector>

#include "core/base/batch_field.h"
#include "core/model/pass/sequences.h"

namespace llmtrain {

// The samples of one micro-batch: fields, of which blocks read what they declare, and how its rows form sequences.
struct Batch {
  std::array<at::Tensor, batch_field_names.size()> fields;  // undefined: the samples have no such field
  std::vector<Sequences> rows;                              // of each axis of token rows; a decoder has one

  const at::Tensor& field(BatchField field) const { return fields[index_of(field)]; }
  at::Tensor& field(BatchField field) { return fields[index_of(field)]; }
  // For batches with one axis of token rows alone.
  const Sequences& sequences() const { return rows.front(); }
  Sequences& sequences() { return rows.front(); }
};

// The rows of tokens that a prediction asks for by BatchField::counted_rows; without that field all.
inline at::Tensor rows_asked_for(const at::Tensor& rows, const Batch& batch) {
  const at::Tensor& which = batch.field(BatchField::counted_rows);
  return which.defined() ? rows.index_select(0, which) : rows;
}

}  // namespace llmtrain
