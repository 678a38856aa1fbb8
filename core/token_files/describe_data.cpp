// SPDX-License-Identifier: Apache-2.0
#include "core/token_files/describe_data.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <system_error>

#include "core/data/file_search.h"
#include "core/data/records/csv_records.h"
#include "core/data/records/line_records.h"
#include "core/data/records/table_records.h"
#include "core/data/token_source.h"
#include "core/tokenizer/encode_document.h"

namespace llmtrain {
namespace {

constexpr std::int64_t block = 1 << 20;  // tokens that are looked at together

std::string_view name_of_format(const std::filesystem::path& file, const std::string& key) {
  if (is_json_lines(file)) return "JSON Lines";
  if (is_csv(file)) return "CSV";
  if (is_column_table(file)) return "table";
  return has_rows(file, key) ? "JSON" : "text";
}

std::string text_format(const std::filesystem::path& file, const std::string& key) {
  std::string format(name_of_format(file, key));
  if (file.extension() == ".gz") format += ", gzip";
  if (file.extension() == ".zst") format += ", zstd";
  return format;
}

DataDescription describe_tokens(const std::filesystem::path& file, std::int64_t first_tokens, const std::string& key) {
  TextTokens no_text({}, 0, OnBadLine::stop, key);
  MappingBudget budget;
  const TokenFile tokens(file, no_text, std::numeric_limits<std::int64_t>::max(), budget);
  DataDescription description;
  description.format = tokens.format();
  description.tokens = tokens.tokens();
  description.documents = tokens.documents();
  std::vector<std::int64_t> ids;
  for (std::int64_t first = 0; first < tokens.tokens(); first += block) {
    ids.resize(static_cast<std::size_t>(std::min(block, tokens.tokens() - first)));
    tokens.read(first, ids);
    description.largest_id = std::max(description.largest_id.value_or(0), *std::ranges::max_element(ids));
    if (first == 0) description.first_tokens.assign(ids.begin(), ids.begin() + std::min(first_tokens, std::ssize(ids)));
  }
  return description;
}

DataDescription describe_text(const std::filesystem::path& file, const Tokenizer* tokenizer, std::int64_t first_tokens,
                              OnBadLine on_bad_line, const std::string& key) {
  DataDescription description;
  description.bad_lines = BadLines(on_bad_line);
  description.format = text_format(file, key);
  description.documents = 0;
  const auto encoder = tokenizer != nullptr ? tokenizer->make_encoder() : nullptr;
  std::vector<TokenId> ids;
  const auto reader = open_document_records(file, key);
  for (Record record; description.bad_lines.next(*reader, record);) {
    const auto read = description.bad_lines.read([&] { return document_of(record, file, key); });
    if (!read) continue;
    const std::string& text = *read;
    // Four bytes are about a token.
    if (description.documents == 0) description.first_text = text.substr(0, static_cast<std::size_t>(4 * first_tokens));
    ++*description.documents;
    if (encoder == nullptr) continue;
    ids.clear();
    encode_document(*tokenizer, *encoder, text, ids);
    description.tokens = description.tokens.value_or(0) + std::ssize(ids);
    for (const TokenId id : ids)
      description.largest_id = std::max<std::int64_t>(description.largest_id.value_or(0), id);
    const auto missing = std::min(first_tokens - std::ssize(description.first_tokens), std::ssize(ids));
    description.first_tokens.insert(description.first_tokens.end(), ids.begin(), ids.begin() + missing);
  }
  return description;
}

}  // namespace

DataDescription describe_data(const std::filesystem::path& file, const Tokenizer* tokenizer, std::int64_t first_tokens,
                              OnBadLine on_bad_line, const std::string& key) {
  DataDescription description = is_token_file(file) ? describe_tokens(file, first_tokens, key)
                                                    : describe_text(file, tokenizer, first_tokens, on_bad_line, key);
  std::error_code ignored;
  description.file_bytes = static_cast<std::int64_t>(std::filesystem::file_size(file, ignored));
  if (tokenizer != nullptr) description.first_text = tokenizer->decode(description.first_tokens);
  return description;
}

}  // namespace llmtrain
