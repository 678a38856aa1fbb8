// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/inference/source_prompts.h"

#include <memory>
#include <optional>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

using Piece = ExampleTemplate::Piece;

std::int64_t start_of(const SampleRequest& request, const Tokenizer& tokenizer) {
  const std::int64_t vocabulary = request.recipe.model.vocab_size;
  const std::optional<std::int64_t> start =
      request.decoder_start ? request.decoder_start : padding_of_tokenizer(request.recipe.data.tokenizer, tokenizer);
  if (start && *start < vocabulary) return *start;
  throw Error(ExitCode::bad_data, request.checkpoint + ": its targets begin with " +
                                      (start ? std::to_string(*start) + ", which is no id of the model"
                                             : std::string("padding, which the tokenizer does not name")) +
                                      "; say --set data.pairs.decoder_start=ID");
}

}  // namespace

SourcePrompts::SourcePrompts(const SampleRequest& request, const Tokenizer& tokenizer)
    : tokenizer_(tokenizer),
      targets_(request.recipe.data.tokenizer, tokenizer, start_of(request, tokenizer)),
      longest_(request.recipe.model.max_sequence_length) {
  if (ExampleTemplate::marks(targets_.marks().single) >= longest_)
    throw Error(ExitCode::bad_data, request.checkpoint + ": the tokenizer's marks leave no room for a source in " +
                                        std::to_string(longest_) + " tokens (max_sequence_length)");
}

std::vector<std::int64_t> SourcePrompts::tokens(const std::string& source) {
  std::vector<TokenId> words;
  tokenizer_.make_encoder()->encode(source, words);
  const auto room = static_cast<std::size_t>(longest_ - ExampleTemplate::marks(targets_.marks().single));
  if (words.size() > room) {
    if (!std::exchange(has_warned_, true))
      log().warn("a source has {} tokens, of which the model sees the first {} (max_sequence_length)", words.size(),
                 room);
    words.resize(room);
  }
  std::vector<std::int64_t> ids;
  for (const Piece& piece : targets_.marks().single) {
    if (piece.kind == Piece::Kind::mark)
      ids.push_back(piece.id);
    else
      ids.insert(ids.end(), words.begin(), words.end());
  }
  if (ids.empty()) throw Error(ExitCode::bad_data, "a source has no tokens; --prompt must be a text");
  return ids;
}

}  // namespace llmtrain
