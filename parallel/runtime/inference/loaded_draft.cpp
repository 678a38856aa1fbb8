// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/inference/loaded_draft.h"

#include "parallel/runtime/loaded_model.h"

namespace llmtrain {

void with_drafts(const std::optional<DraftRequest>& request, std::int64_t texts, std::int64_t capacity,
                 const std::function<void(const Drafting&)>& work) {
  if (!request) {
    work({});
  } else if (request->model) {
    with_loaded_model(request->model->recipe, request->model->checkpoint, {}, {}, [&](LocalModel& model) {
      ModelDrafts drafts(model, texts, capacity);
      work({&drafts, request->tokens});
    });
  } else {
    LookupDrafts drafts;
    work({&drafts, request->tokens});
  }
}

}  // namespace llmtrain
