// SPDX-License-Identifier: Apache-2.0
#include "core/data/masking/token_kinds.h"

#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "core/tokenizer/byte_tokenizer.h"
#include "core/tokenizer/model_marks.h"
#include "core/tokenizer/pieces/json_fields.h"

namespace llmtrain {
namespace {

bool is_blank(char c) { return std::string_view(" \t\n\v\f\r").find(c) != std::string_view::npos; }

// What all kinds of tokenizers have in common: they write ids.
void add_texts(const Tokenizer& opened, TokenKinds& kinds) {
  const auto size = static_cast<std::size_t>(opened.vocab_size());
  kinds.is_special.resize(size);
  kinds.begins_word.resize(size);
  for (std::size_t id = 0; id < size; ++id) {
    const std::string text = opened.decode_continuation(std::array{static_cast<std::int64_t>(id)});
    kinds.is_special[id] = text.empty() || text == replacement_character;
    kinds.begins_word[id] = !text.empty() && is_blank(text.front());
  }
  for (const auto* marks : {&opened.marks().begin, &opened.marks().end})
    for (const TokenId id : *marks) kinds.is_special.at(static_cast<std::size_t>(id)) = true;
}

void add_word_pieces(const JsonFields& model, TokenKinds& kinds) {
  const std::string prefix =
      model.has("continuing_subword_prefix") ? model.text("continuing_subword_prefix") : std::string("##");
  for (const auto& [piece, id] : model.section("vocab").value().items())
    if (const auto place = id.get<std::size_t>(); place < kinds.begins_word.size())
      kinds.begins_word[place] = !piece.starts_with(prefix);
}

// What a tokenizer.json says.
void add_file(const std::filesystem::path& file, TokenKinds& kinds) {
  const nlohmann::json json = read_json_file(file);
  const JsonFields root(file, json, "");
  const JsonFields model = root.section("model");
  if (model.has("type") && model.text("type") == "WordPiece") add_word_pieces(model, kinds);
  if (!root.has("added_tokens")) return;
  const JsonFields added = root.section("added_tokens");
  for (std::size_t i = 0; i < added.size(); ++i) {
    const JsonFields token = added.element(i);
    const std::int64_t id = token.whole_number("id");
    if (id < 0 || id >= std::ssize(kinds.is_special)) continue;
    if (token.flag("special", false)) kinds.is_special[static_cast<std::size_t>(id)] = true;
    const std::string text = token.text("content");
    if (text == "[MASK]" || text == "<mask>") kinds.mask = id;
  }
}

// What the files beside it name; a special token that is not one id of the tokenizer is none of it.
void add_named(const std::filesystem::path& folder, const Tokenizer& opened, TokenKinds& kinds) {
  const auto encoder = opened.make_encoder();
  for (const auto& [name, text] : read_model_marks(folder).special_tokens) {
    std::vector<TokenId> ids;
    encoder->encode(text, ids);
    if (ids.size() != 1) continue;
    kinds.is_special.at(static_cast<std::size_t>(ids.front())) = true;
    if (name == "mask_token") kinds.mask = ids.front();
  }
}

}  // namespace

TokenKinds token_kinds(const TokenizerRecipe& recipe, const Tokenizer& opened) {
  TokenKinds kinds;
  add_texts(opened, kinds);
  if (recipe.kind == TokenizerKind::huggingface) add_file(recipe.file, kinds);
  if (recipe.kind != TokenizerKind::bytes) add_named(std::filesystem::path(recipe.file).parent_path(), opened, kinds);
  if (kinds.mask) kinds.is_special[static_cast<std::size_t>(*kinds.mask)] = true;
  return kinds;
}

}  // namespace llmtrain
