// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/draft_flags.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <memory>

#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "core/base/error.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain::app {
namespace {

// Ids that mean other texts would be guesses at nothing. Files of one tokenizer may differ in what has no tokens.
void require_same_tokens(const std::string& source, const Recipe& draft, const Recipe& recipe) {
  if (draft.model.vocab_size != recipe.model.vocab_size)
    throw Error(ExitCode::bad_recipe, fmt::format("--draft {}: has {} tokens (model.vocab_size), where the model that "
                                                  "writes has {}; take one that was trained with the same tokenizer",
                                                  source, draft.model.vocab_size, recipe.model.vocab_size));
  if (hash_of_tokenizer(draft.data.tokenizer) == hash_of_tokenizer(recipe.data.tokenizer)) return;
  const auto own = open_tokenizer(recipe.data.tokenizer), other = open_tokenizer(draft.data.tokenizer);
  for (std::int64_t id = 0; id < std::max(own->vocab_size(), other->vocab_size()); ++id)
    if (const std::array ids{id}; own->decode(ids) != other->decode(ids))
      throw Error(ExitCode::bad_recipe, fmt::format("--draft {}: its tokenizer has another text for token {} than that "
                                                    "of the model that writes; take one with the same tokenizer",
                                                    source, id));
}

// Null: there is no reason to.
void refuse_drafts(const char* reason) {
  if (reason != nullptr)
    throw Error(ExitCode::bad_recipe,
                fmt::format("{}; --draft and --prompt-lookup do not apply, leave them out", reason));
}

}  // namespace

void add_draft_flags(CLI::App& command, DraftFlags& flags) {
  CLI::Option* model =
      command
          .add_option(
              "--draft", flags.source,
              "A smaller model with the same tokenizer that guesses at the tokens to come, which the model then "
              "checks in one pass: the same texts, faster where it guesses well")
          ->type_name("SOURCE")
          ->check(text_not_empty());
  command
      .add_flag("--prompt-lookup", flags.looks_up,
                "Guess what followed the same tokens earlier in the text, for texts that repeat parts of the prompt")
      ->excludes(model);
  command.add_option("--draft-tokens", flags.tokens, "Tokens that are guessed at once")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 16));
}

OpenedDraft open_draft(const DraftFlags& flags, const Recipe& recipe) {
  OpenedDraft draft;
  if (!flags.source && !flags.looks_up) return draft;
  draft.request = DraftRequest{.tokens = flags.tokens};
  if (!flags.source) return draft;
  draft.source = open_source(*flags.source, {});
  const std::string checkpoint = draft.source->checkpoint().string();
  require_executable(draft.source->recipe, checkpoint);
  require_decoder(draft.source->recipe, checkpoint, "--draft");
  require_same_tokens(*flags.source, draft.source->recipe, recipe);
  draft.request->model = {draft.source->recipe, checkpoint};
  return draft;
}

void require_drafts_apply(const SampleRequest& request) {
  if (!request.draft) return;
  const bool has_sources = is_encoder_decoder(request.recipe.model.architecture);
  refuse_drafts(request.beams.beams > 1 ? "--beams: the texts that it searches for grow side by side"
                : has_sources           ? "/model/architecture: an encoder-decoder's texts follow sources"
                                        : nullptr);
}

void require_drafts_apply(const ServeRequest& request) {
  if (request.draft && is_encoder(request.recipe.model.architecture))
    refuse_drafts("/model/architecture: an encoder goes on with no texts to guess at");
}

}  // namespace llmtrain::app
