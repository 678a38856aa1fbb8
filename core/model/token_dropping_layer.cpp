// SPDX-License-Identifier: Apache-2.0
#include "core/model/token_dropping_layer.h"

#include <ATen/ops/empty.h>
#include <ATen/ops/zeros_like.h>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

#include "kernels/attention/row_documents.h"
#include "kernels/host_copy.h"
#include "kernels/random/dropout.h"
#include "kernels/random/philox.h"

namespace llmtrain {
namespace {

bool drops(const Batch& batch, const PassContext& pass) {
  return pass.trains() && pass.kept_tokens > 0 && pass.kept_tokens < batch.sequences().length;
}

// What is left of each document in rows of all sequences, which ascend.
std::vector<kernels::PositionRun> kept_documents(const std::vector<kernels::PositionRun>& documents,
                                                 const at::Tensor& rows) {
  std::vector<kernels::PositionRun> kept;
  const auto* const first = rows.const_data_ptr<std::int64_t>();
  const auto* next = first;
  for (const kernels::PositionRun& document : documents) {
    const auto* const end = std::lower_bound(next, first + rows.numel(), document.begin + document.length);
    if (end != next) kept.push_back({next - first, end - next});
    next = end;
  }
  return kept;
}

// The sequences as the layer sees them; `rows` are `host_rows` where the activation is.
Sequences kept_part(const Sequences& all, std::int64_t length, const at::Tensor& host_rows, const at::Tensor& rows) {
  Sequences kept{.count = all.count, .length = length, .documents = kept_documents(all.documents, host_rows)};
  kept.document_starts = kernels::document_starts(kept.documents, rows.device());
  // Rotary positions are those in the whole sequence, or document.
  kept.positions = all.positions.defined() ? all.positions.index_select(0, rows) : rows.remainder(all.length);
  return kept;
}

PassContext kept_pass(const PassContext& pass, const Sequences& all) {
  PassContext kept = pass;
  // The index of a row says nothing of its token's.
  kept.recorders.token_choices = nullptr;
  // Losses within the layer are means over the tokens that it sees.
  kept.batch_rows = pass.batch_rows * static_cast<double>(pass.kept_tokens) / static_cast<double>(all.length);
  return kept;
}

Tensors rows_of(const Tensors& whole, const at::Tensor& rows) {
  Tensors part;
  for (const at::Tensor& tensor : whole) part.push_back(tensor.index_select(0, rows));
  return part;
}

}  // namespace

at::Tensor kept_rows(const Sequences& all, const PassContext& pass, std::uint64_t site) {
  struct Draw {
    std::uint64_t number;
    std::int64_t position;
    bool operator<(const Draw& other) const {
      return number != other.number ? number < other.number : position < other.position;
    }
  };
  const std::uint64_t key = kernels::dropout_key(pass.seed, pass.step, site);
  at::Tensor rows = at::empty({all.count * pass.kept_tokens}, at::kLong);
  auto* next = rows.mutable_data_ptr<std::int64_t>();
  std::vector<Draw> draws(static_cast<std::size_t>(all.length));
  for (std::int64_t sequence = 0; sequence < all.count; ++sequence) {
    for (std::int64_t i = 0; i < all.length; ++i) {
      const auto bits =
          kernels::philox(key, static_cast<std::uint64_t>(i), static_cast<std::uint64_t>(pass.first_sample + sequence));
      draws[static_cast<std::size_t>(i)] = {std::uint64_t{bits[0]} << 32 | bits[1], i};
    }
    // The tokens with the smallest of independent random numbers are a random subset.
    const auto kept = draws.begin() + static_cast<std::ptrdiff_t>(pass.kept_tokens);
    std::nth_element(draws.begin(), kept, draws.end());
    auto* const first = next;
    for (auto draw = draws.begin(); draw != kept; ++draw) *next++ = sequence * all.length + draw->position;
    std::sort(first, next);
  }
  return rows;
}

struct TokenDroppingLayer::Saved : SavedActivations {
  at::Tensor rows;
  Batch kept;  // of the tokens that are kept; the layer reads no field
  std::unique_ptr<SavedActivations> inner;

  void visit(const KeptTensorVisitor& visit) override {
    if (inner) inner->visit(visit);
  }
};

TokenDroppingLayer::TokenDroppingLayer(std::unique_ptr<BlockModule> inner, std::uint64_t random_site)
    : inner_(std::move(inner)), site_(random_site) {}

BlockModule::Output TokenDroppingLayer::forward(Tensors inputs, const Batch& batch, const PassContext& pass) const {
  if (!drops(batch, pass)) return inner_->forward(std::move(inputs), batch, pass);
  const Sequences& all = batch.sequences();
  auto saved = std::make_unique<Saved>();
  // Drawn on the host, which knows seed, step and sequence as well; no GPU is waited for.
  const at::Tensor rows = kept_rows(all, pass, site_);
  saved->rows = kernels::to_device(rows, inputs.front().device());
  saved->kept.rows = {kept_part(all, pass.kept_tokens, rows, saved->rows)};
  Output output = inner_->forward(rows_of(inputs, saved->rows), saved->kept, kept_pass(pass, all));
  saved->inner = std::move(output.saved);
  for (std::size_t i = 0; i < output.values.size(); ++i) {
    // A copy: the block before, or a message to it, may still read the input.
    at::Tensor y = inputs[i].clone();
    y.index_copy_(0, saved->rows, output.values[i]);
    output.values[i] = std::move(y);
  }
  output.saved = std::move(saved);
  return output;
}

Tensors TokenDroppingLayer::backward(Tensors gradients, const Batch& batch, const PassContext& pass,
                                     std::unique_ptr<SavedActivations> saved) const {
  if (!drops(batch, pass)) return inner_->backward(std::move(gradients), batch, pass, std::move(saved));
  auto& of_part = static_cast<Saved&>(*saved);
  const Tensors kept = inner_->backward(rows_of(gradients, of_part.rows), of_part.kept,
                                        kept_pass(pass, batch.sequences()), std::move(of_part.inner));
  for (std::size_t i = 0; i < kept.size(); ++i) {
    // An input that no output goes on from has no gradient from tokens that pass the layer by.
    if (i == gradients.size()) gradients.push_back(at::zeros_like(gradients.front()));
    // The gradients of kept tokens are those that the layer returns, its residual connections included.
    gradients[i].index_copy_(0, of_part.rows, kept[i]);
  }
  return gradients;
}

}  // namespace llmtrain
