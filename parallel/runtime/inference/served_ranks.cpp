// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/inference/served_ranks.h"

#include "parallel/engine/generation/exactness.h"

namespace llmtrain {
namespace {

Pooling pooling_of(TextPooling pooling) {
  switch (pooling) {
    case TextPooling::mean:
      break;
    case TextPooling::first:
      return Pooling::first;
    case TextPooling::last:
      return Pooling::last;
  }
  return Pooling::mean;
}

}  // namespace

ServedRanks::ServedRanks(LocalModel& model, const ServeRequest& request, const Drafting& drafting)
    : lead_(model.groups()), embedder_(model, pooling_of(request.pooling)) {
  // The batch refuses what is exact for no decoder.
  if (!is_encoder(request.recipe.model.architecture))
    batch_.emplace(model, BatchLimits{.sequences = request.sequences,
                                      .cache_bytes = request.cache_bytes,
                                      .is_exact = request.is_exact,
                                      .key_values = request.key_values,
                                      .drafting = drafting});
  else if (request.is_exact)
    require_exactness(model, "--exact");
}

void ServedRanks::tell(Work work, std::span<const std::int64_t> text) {
  if (!has_followers()) return;
  std::vector<std::int64_t> words{static_cast<std::int64_t>(work)};
  words.insert(words.end(), text.begin(), text.end());
  lead_.tell(std::move(words));
}

bool ServedRanks::grow() {
  tell(Work::grow);
  return batch_ && batch_->step();
}

std::vector<float> ServedRanks::embed(std::span<const std::int64_t> text) {
  tell(Work::embed, text);
  return embedder_.embed(text);
}

void ServedRanks::end() { tell(Work::end); }

void ServedRanks::follow() {
  while (true) {
    const std::vector<std::int64_t> words = lead_.tell({});
    switch (static_cast<Work>(words.front())) {
      case Work::grow:
        if (batch_) batch_->step();
        break;
      case Work::embed:
        embedder_.embed(std::span(words).subspan(1));
        break;
      case Work::end:
        return;
    }
  }
}

}  // namespace llmtrain
