// SPDX-License-Identifier: Apache-2.0
#include "core/data/masking/masking_vocabulary.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>

#include "core/base/error.h"
#include "core/data/file_search.h"
#include "core/data/masking/token_kinds.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

bool reads_token_files(const DataRecipe& data) {
  const auto has_tokens = [](const DataSource& source) { return is_token_file(source.path); };
  return std::ranges::any_of(data.train, has_tokens) || std::ranges::any_of(data.validation, has_tokens);
}

TokenKinds kinds_of(const Recipe& recipe) {
  const DataRecipe& data = recipe.data;
  if (data.tokenizer.kind != TokenizerKind::bytes || !reads_token_files(data))
    return token_kinds(data.tokenizer, *open_tokenizer(data.tokenizer, recipe.model.vocab_size));
  const auto size = static_cast<std::size_t>(recipe.model.vocab_size);
  return {{}, std::vector<bool>(size, false), std::vector<bool>(size, true)};
}

}  // namespace

std::shared_ptr<const Masking> masking_of(const Recipe& recipe) {
  const DataRecipe& data = recipe.data;
  if (!data.masking) return nullptr;
  TokenKinds kinds = kinds_of(recipe);
  const auto mask = data.masking->token ? data.masking->token : kinds.mask;
  if (!mask)
    throw Error(ExitCode::bad_data,
                fmt::format("{}: has no token that masks others ([MASK] or <mask>, or what a tokenizer_config.json "
                            "beside it calls mask_token); data.masking.token must be the id of one",
                            data.tokenizer.file));
  auto masking = std::make_shared<Masking>();
  masking->recipe = *data.masking;
  const auto hide = [&](std::int64_t id) {
    if (id < std::ssize(kinds.is_special)) kinds.is_special[static_cast<std::size_t>(id)] = true;
  };
  hide(*mask);
  if (data.document_mask && data.document_mask->end_of_text) hide(*data.document_mask->end_of_text);
  for (std::size_t id = 0; id < kinds.is_special.size(); ++id)
    if (!kinds.is_special[id]) masking->vocabulary.replacements.push_back(static_cast<std::int64_t>(id));
  if (masking->vocabulary.replacements.empty())
    throw Error(ExitCode::bad_data,
                fmt::format("{}: has no tokens but special ones, so that nothing can be masked", data.tokenizer.file));
  masking->vocabulary.mask = *mask;
  masking->vocabulary.is_special = std::move(kinds.is_special);
  masking->vocabulary.begins_word = std::move(kinds.begins_word);
  return masking;
}

}  // namespace llmtrain
