// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "parallel/engine/generation/continuous_batch.h"
#include "parallel/engine/generation/text_embedder.h"
#include "parallel/runtime/text_service.h"
#include "parallel/shard/rank_lead.h"

namespace llmtrain {

// What the ranks of a served model do together: texts grow, and others are embedded. The rank that leads says what is
// next, and the others do the same. Where one rank has the model, it leads nobody.
class ServedRanks {
 public:
  // The model and who guesses outlive this. Collective. Throws what the batch and the embedder throw.
  ServedRanks(LocalModel& model, const ServeRequest& request, const Drafting& drafting);

  bool leads() const { return lead_.leads(); }
  bool has_followers() const { return lead_.has_followers(); }
  // Null: an encoder, which goes on with no texts. Stepped by grow() alone.
  const std::optional<ContinuousBatch>& batch() const { return batch_; }
  std::optional<ContinuousBatch>& batch() { return batch_; }
  const TextEmbedder& embedder() const { return embedder_; }

  // On the rank that leads. The others wait for these calls no longer than their watchdog lets them.
  bool grow();  // ContinuousBatch::step()
  std::vector<float> embed(std::span<const std::int64_t> text);
  void end();

  // On the others: does what that rank asks for, and returns when it calls end().
  void follow();

 private:
  enum class Work : std::int64_t { grow, embed, end };
  void tell(Work work, std::span<const std::int64_t> text = {});

  RankLead lead_;
  std::optional<ContinuousBatch> batch_;
  TextEmbedder embedder_;
};

}  // namespace llmtrain
