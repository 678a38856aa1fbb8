// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/inference/loaded_draft.h"

#include "parallel/runtime/loaded_model.h"
#include "parallel/shard/rank_lead.h"

namespace llmtrain {

void with_drafts(const std::optional<DraftRequest>& request, const LocalModel& model, std::int64_t texts,
                 std::int64_t capacity, const std::function<void(const Drafting&)>& work) {
  if (!request) {
    work({});
  } else if (!RankLead(model.groups()).leads()) {
    work({.tokens = request->tokens});
  } else if (request->model) {
    with_model_beside(request->model->recipe, request->model->checkpoint, [&](LocalModel& guesses) {
      ModelDrafts drafts(guesses, texts, capacity);
      work({&drafts, request->tokens});
    });
  } else {
    LookupDrafts drafts;
    work({&drafts, request->tokens});
  }
}

}  // namespace llmtrain
