// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/open_tokenizer.h"

#include <spdlog/fmt/fmt.h>

#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <system_error>

#include "core/base/file.h"
#include "core/base/hash.h"
#include "core/tokenizer/byte_tokenizer.h"
#include "core/tokenizer/document_marks.h"
#include "core/tokenizer/huggingface_tokenizer.h"
#include "core/tokenizer/model_marks.h"
#include "core/tokenizer/sentencepiece_tokenizer.h"

namespace llmtrain {

std::shared_ptr<const Tokenizer> open_tokenizer(const TokenizerRecipe& tokenizer) {
  switch (tokenizer.kind) {
    case TokenizerKind::bytes:
      return std::make_shared<ByteTokenizer>();
    case TokenizerKind::sentencepiece:
      return std::make_shared<SentencePieceTokenizer>(tokenizer.file);
    case TokenizerKind::huggingface:
      return std::make_shared<HuggingFaceTokenizer>(tokenizer.file);
  }
  throw std::logic_error("not a kind of tokenizer");
}

std::shared_ptr<const Tokenizer> open_tokenizer(const TokenizerRecipe& tokenizer, std::int64_t vocab_size) {
  auto opened = open_tokenizer(tokenizer);
  // Bytes have another rule: text may hold fewer of them than a tokenizer's 256.
  if (tokenizer.kind == TokenizerKind::bytes || opened->vocab_size() <= vocab_size) return opened;
  throw Error(ExitCode::bad_data,
              fmt::format("{}: has ids up to {}, model.vocab_size is {}; set model.vocab_size to {} or more",
                          tokenizer.file, opened->vocab_size() - 1, vocab_size, opened->vocab_size()));
}

Error with_key(const Error& error, const TokenizerRecipe& tokenizer, const std::string& other) {
  const std::string text = error.what();
  std::string key = other;
  if (tokenizer.kind != TokenizerKind::bytes && text.starts_with(tokenizer.file + ":"))
    key =
        tokenizer.kind == TokenizerKind::huggingface ? "/data/tokenizer/huggingface" : "/data/tokenizer/sentencepiece";
  return {error.code(), key + ": " + text};
}

std::string hash_of_tokenizer(const TokenizerRecipe& tokenizer) {
  if (tokenizer.kind == TokenizerKind::bytes) return "bytes";
  const std::filesystem::path config = config_beside(tokenizer.file);
  return sha256_of(read_file(tokenizer.file) + (path_exists(config) ? read_file(config) : ""));
}

namespace {

using SpecialTokens = std::map<std::string, std::string>;

SpecialTokens special_tokens_beside(const TokenizerRecipe& tokenizer) {
  return read_model_marks(std::filesystem::path(tokenizer.file).parent_path()).special_tokens;
}

// The id of the special token of that name; none where it is no token of `opened`.
std::optional<std::int64_t> id_of(const SpecialTokens& tokens, const std::string& name, const Tokenizer& opened) {
  const auto token = tokens.find(name);
  if (token == tokens.end()) return std::nullopt;
  return opened.id_of_token(token->second);
}

}  // namespace

std::optional<std::int64_t> padding_of_tokenizer(const TokenizerRecipe& tokenizer, const Tokenizer& opened) {
  if (tokenizer.kind == TokenizerKind::bytes) return std::nullopt;
  return id_of(special_tokens_beside(tokenizer), "pad_token", opened);
}

std::optional<std::int64_t> prefix_of_tokenizer(const TokenizerRecipe& tokenizer, const Tokenizer& opened) {
  if (tokenizer.kind == TokenizerKind::bytes) return std::nullopt;
  const DocumentMarks& marks = opened.marks();
  const SpecialTokens tokens = special_tokens_beside(tokenizer);
  for (const char* name : {"bos_token", "eos_token"})
    if (const auto id = id_of(tokens, name, opened)) return id;
  for (const std::vector<TokenId>* mark : {&marks.begin, &marks.end})
    if (!mark->empty()) return mark->front();
  return std::nullopt;
}

const TextTemplates& Tokenizer::templates() const {
  static const TextTemplates without_marks;
  return without_marks;
}

std::vector<std::int64_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text) {
  std::vector<TokenId> ids = tokenizer.marks().begin;
  tokenizer.make_encoder()->encode(text, ids);
  return {ids.begin(), ids.end()};
}

}  // namespace llmtrain
