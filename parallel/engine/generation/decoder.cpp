// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/generation/decoder.h"

#include <ATen/ops/tensor.h>

#include <utility>

#include "core/base/error.h"

namespace llmtrain {
namespace {

// A micro-batch of all pieces as one sequence.
struct Pass {
  std::vector<std::int64_t> tokens, logit_rows;
  std::vector<kernels::CachePlace> places;
};

Pass pass_of(std::span<const NewTokens> pieces, Decoder::Rows rows, std::int64_t divisor) {
  Pass pass;
  for (const NewTokens& piece : pieces) {
    std::int64_t position = piece.position;
    for (const std::int64_t token : piece.tokens) {
      pass.tokens.push_back(token);
      pass.places.push_back({piece.sequence, position++});
      if (rows == Decoder::Rows::all) pass.logit_rows.push_back(static_cast<std::int64_t>(pass.tokens.size()) - 1);
    }
    if (rows == Decoder::Rows::last) pass.logit_rows.push_back(static_cast<std::int64_t>(pass.tokens.size()) - 1);
  }
  // Tensor ranks divide rows among themselves: those of experts, and with sequence parallelism all.
  while (static_cast<std::int64_t>(pass.tokens.size()) % divisor != 0) {
    pass.tokens.push_back(0);
    pass.places.push_back({-1, 0});
  }
  return pass;
}

}  // namespace

Decoder::Decoder(LocalModel& model, std::int64_t sequences, std::int64_t capacity)
    : model_(model), cache_(sequences, capacity), pass_(model) {
  if (model.layout().mesh().context > 1)
    throw Error(ExitCode::internal_error, "decoder: context ranks hold parts of sequences, which no cache is made for");
}

at::Tensor Decoder::logits(std::span<const NewTokens> pieces, Rows rows) {
  Pass pass = pass_of(pieces, rows, model_.groups().tensor.ranks());
  MicroBatch micro;
  micro.batch = 1;
  micro.sequence = static_cast<std::int64_t>(pass.tokens.size());
  micro.tokens = at::tensor(pass.tokens, at::kLong).to(model_.device());
  micro.logit_rows = at::tensor(pass.logit_rows, at::kLong).to(model_.device());
  cache_.start(std::move(pass.places), model_.device());
  micro.cache = &cache_;
  const at::Tensor logits = pass_.run(micro, ForwardPass::Result::logits);
  pass_.finish();
  return logits.defined() ? logits.to(at::kCPU, at::kFloat).contiguous() : logits;
}

bool Decoder::decides() const {
  const RankGroups& groups = model_.groups();
  if (model_.holds_all_weights()) return true;
  return groups.pipeline.position() + 1 == groups.pipeline.ranks() && groups.tensor.position() == 0 &&
         groups.data.position() == 0;
}

std::vector<double> Decoder::agree(std::vector<double> values) const {
  if (model_.holds_all_weights()) return values;
  // Zeros elsewhere make the sum an exact copy of what the one rank has chosen.
  if (!decides()) values.assign(values.size(), 0);
  const std::vector<double> all = model_.groups().exchange(values);
  std::vector<double> result(values.size(), 0);
  for (std::size_t i = 0; i < all.size(); ++i) result[i % result.size()] += all[i];
  return result;
}

}  // namespace llmtrain
