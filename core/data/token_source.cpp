// SPDX-License-Identifier: Apache-2.0
#include "core/data/token_source.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <iterator>
#include <system_error>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/data/file_search.h"
#include "core/data/records/documents.h"
#include "core/data/records/input_stream.h"
#include "core/data/records/record_reader.h"
#include "core/data/records/skipped_lines.h"
#include "core/data/records/text_check.h"

namespace llmtrain {
namespace {

static_assert(std::endian::native == std::endian::little, "token files are read as they are stored");

// llm.c's evaluation data, models, optimizer states and tokenizers, which could be mistaken for raw uint16.
constexpr std::int32_t other_llmc_magics[] = {20240522, 20240326, 20240527, 20240328};

[[noreturn]] void fail(const std::filesystem::path& file, const std::string& what) {
  throw Error(ExitCode::bad_data, file.string() + ": " + what);
}

// Entry `index` of a header of int32; 0 where the file ends before it.
std::int32_t header_entry(std::span<const std::byte> bytes, std::size_t index) {
  std::int32_t value = 0;
  if (bytes.size() >= (index + 1) * sizeof value)
    std::memcpy(&value, bytes.data() + index * sizeof value, sizeof value);
  return value;
}

std::string_view as_text(std::span<const std::byte> bytes) {
  return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
}

double size_of(const std::filesystem::path& file) {
  std::error_code unknown;
  const auto bytes = std::filesystem::file_size(file, unknown);
  return unknown ? 0 : static_cast<double>(bytes);
}

void check_count(const std::filesystem::path& file, std::size_t bytes, std::size_t expected, const std::string& claim) {
  if (bytes == expected) return;
  fail(file, fmt::format("holds {} bytes, {} make {}: it was {} or its header is wrong; write it again", bytes, claim,
                         expected, bytes < expected ? "cut short" : "extended"));
}

}  // namespace

// A text where a key is named is refused when it is opened.
bool is_read_as_bytes(const std::filesystem::path& file, const std::string& key) {
  return key == document_key && !has_rows(file, key) && !is_compressed(file);
}

TokenFile::TokenFile(const std::filesystem::path& file, TextTokens& text, std::int64_t vocab_size,
                     MappingBudget& budget, DocumentStarts starts, const ReportShare& report) {
  const bool binary = is_token_file(file);
  const bool is_mapped_text = text.is_bytes() && is_read_as_bytes(file, text.key());
  if (!binary && !is_mapped_text) {
    open_text(file, text, report);
    // Mapped where possible: ranks of a node then share the pages, and data larger than memory can be read.
  } else if (budget.left > 0) {
    mapping_.emplace(file);
    --budget.left;
  } else {
    memory_ = read_file(file);
  }
  if (is_megatron_index(content())) fail(file, "is an index, not tokens; name the .bin file beside it");
  if (!binary && is_mapped_text) require_text(file, as_text(content()));
  // Files are checked when they are opened, so that a run fails at its start and not after hours at a bad id.
  if (binary) open_binary(file);
  if (starts == DocumentStarts::known && documents_)
    document_starts_.emplace(std::filesystem::path(file).replace_extension(".idx"));
  tokens_ = static_cast<std::int64_t>(token_bytes().size()) / size_of(type_);
  const auto invalid = find_invalid(vocab_size, report);
  if (!invalid) return;
  fail(file, fmt::format("token {} has id {}; ids must be from 0 to {}, below model.vocab_size ({}): {}",
                         invalid->position, invalid->id, vocab_size - 1, vocab_size,
                         binary ? "raise it, or give a file made with the model's tokenizer" : "bytes need 256"));
}

std::optional<InvalidToken> TokenFile::find_invalid(std::int64_t vocab_size, const ReportShare& report) const {
  const std::span<const std::byte> bytes = token_bytes();
  std::size_t released = 0;
  // Samples are read here and there: a file that has been read as a whole would count as memory of the process.
  const auto release_until = [&](std::size_t end) {
    if (mapping_) mapping_->release(bytes.subspan(released, end - released));
    released = end;
  };
  const auto invalid = find_invalid_token(type_, bytes, vocab_size, [&](double share) {
    release_until(static_cast<std::size_t>(share * static_cast<double>(bytes.size())));
    report(share);
  });
  release_until(bytes.size());
  return invalid;
}

void TokenFile::open_text(const std::filesystem::path& file, TextTokens& text, const ReportShare& report) {
  if (text.is_bytes()) {
    TextBytes read = text.bytes_of(file, report);
    memory_ = std::move(read.bytes);
    bad_lines_ = std::move(read.bad_lines);
  } else {
    tokens_of_text_ = text.tokens_of(file, report);
    bad_lines_ = tokens_of_text_->bad_lines;
    type_ = TokenType::i32;
  }
}

std::span<const std::byte> TokenFile::content() const {
  if (tokens_of_text_) return std::as_bytes(std::span(tokens_of_text_->tokens));
  return mapping_ ? mapping_->bytes() : std::as_bytes(std::span(memory_));
}

void TokenFile::open_binary(const std::filesystem::path& file) {
  // The magic first: an llm.c file is one whatever lies beside it.
  const std::int32_t magic = header_entry(content(), 0);
  const auto index = std::filesystem::path(file).replace_extension(".idx");
  if (magic == llmc_uint16_magic) {
    open_llmc(file, TokenType::u16);
  } else if (magic == llmc_uint32_magic) {
    open_llmc(file, TokenType::u32);
    // A link that leads nowhere, too: reading a Megatron pair as raw uint16 would silently produce nonsense.
  } else if (entry_exists(index)) {
    open_megatron(file, index);
  } else {
    open_raw(file);
  }
}

void TokenFile::open_llmc(const std::filesystem::path& file, TokenType type) {
  const auto bytes = content();
  if (bytes.size() < llmc_header_bytes) {
    fail(file, fmt::format("holds {} bytes; the header of an llm.c file alone takes 1024", bytes.size()));
  }
  const std::int32_t version = header_entry(bytes, 1);
  const std::int32_t expected = type == TokenType::u16 ? llmc_uint16_version : llmc_uint32_version;
  if (version != expected) {
    fail(file, fmt::format("is an llm.c file with version {}; its magic requires version {}", version, expected));
  }
  const std::int32_t count = header_entry(bytes, 2);
  if (count < 0) fail(file, fmt::format("claims {} tokens in its header; the count cannot be negative", count));
  check_count(file, bytes.size(), llmc_header_bytes + static_cast<std::size_t>(count) * size_of(type),
              fmt::format("a header of 1024 and its {} tokens", count));
  type_ = type;
  layout_ = "llm.c";
  header_bytes_ = llmc_header_bytes;
}

void TokenFile::open_megatron(const std::filesystem::path& file, const std::filesystem::path& index) {
  const MegatronIndex found = read_megatron_index(index);
  type_ = found.type;
  layout_ = "Megatron-LM";
  documents_ = found.documents;
  check_count(file, content().size(), static_cast<std::size_t>(found.tokens * size_of(found.type)),
              fmt::format("the {} tokens of {}", found.tokens, index.filename().string()));
}

void TokenFile::open_raw(const std::filesystem::path& file) {
  const auto bytes = content();
  const std::int32_t magic = header_entry(bytes, 0);
  if (std::ranges::find(other_llmc_magics, magic) != std::end(other_llmc_magics)) {
    fail(file, "is a file of llm.c with magic " + std::to_string(magic) +
                   ", which holds no training tokens; token files have 20240520 or 20240801");
  }
  // Raw files have no header to check; an odd size is the one sign that this is not uint16.
  if (bytes.size() % 2 != 0) {
    fail(file, "holds " + std::to_string(bytes.size()) +
                   " bytes, an odd number; a .bin file without llm.c's header and without an .idx beside it is uint16, "
                   "2 bytes per token");
  }
  type_ = TokenType::u16;
  layout_ = "no header";
}

std::string TokenFile::format() const { return std::string(layout_) + ", " + std::string(name_of(type_)); }

void TokenFile::read(std::int64_t first, std::span<std::int64_t> tokens) const {
  visit_tokens(type_, token_bytes(), [=](auto ids) {
    const auto part = ids.subspan(static_cast<std::size_t>(first), tokens.size());
    std::copy(part.begin(), part.end(), tokens.begin());
  });
}

bool TokenFile::contains(std::int64_t id, std::int64_t most) const {
  return visit_tokens(type_, token_bytes(), [=](auto ids) {
    const auto part = ids.first(std::min(ids.size(), static_cast<std::size_t>(most)));
    return std::ranges::any_of(part, [id](auto token) { return static_cast<std::int64_t>(token) == id; });
  });
}

TokenSource::TokenSource(const std::string& path, TextTokens& text, std::int64_t vocab_size, MappingBudget& budget,
                         const std::filesystem::path& tokenized, DocumentStarts starts, const ReportShare& report)
    : paths_(find_files(path)) {
  const auto of_tokens = std::ranges::find_if(paths_, is_token_file);
  if (text.key() != document_key && of_tokens != paths_.end())
    fail(*of_tokens, "holds tokens, which have no keys; data.train[].text_key is for rows, so leave it out here");
  // What has been made of text is divided as the text is: by its tokens.
  if (!tokenized.empty()) starts = DocumentStarts::unknown, bad_lines_ = kept_skipped_lines(tokenized);
  const std::vector<std::filesystem::path> files = tokenized.empty() ? paths_ : std::vector{tokenized};
  double bytes = 1;
  for (const auto& file : files) bytes += size_of(file);
  double bytes_before = 0;
  for (const auto& file : files) {
    const double size = size_of(file);
    files_.emplace_back(file, text, vocab_size, budget, starts,
                        [&](double share) { report((bytes_before + share * size) / bytes); });
    starts_.push_back(starts_.back() + files_.back().tokens());
    bytes_before += size;
    report(bytes_before / bytes);
  }
}

BadLines TokenSource::bad_lines() const {
  BadLines all(OnBadLine::skip);
  for (const TokenFile& file : files_) all.add(file.bad_lines());
  all.add(bad_lines_);
  return all;
}

std::size_t TokenSource::file_of(std::int64_t token) const {
  // The last file that starts at or before it, so empty files are passed over.
  return static_cast<std::size_t>(std::upper_bound(starts_.begin(), starts_.end(), token) - starts_.begin()) - 1;
}

std::string TokenSource::place_of(std::int64_t token) const {
  const std::size_t file = file_of(token);
  // Text that has been tokenised beforehand is one file of tokens, whatever the source names.
  const bool is_tokenized = files_.size() != paths_.size();
  return fmt::format("{}{}: token {}", is_tokenized ? "tokens made of " : "", paths_[is_tokenized ? 0 : file].string(),
                     token - starts_[file]);
}

void TokenSource::read(std::int64_t first, std::span<std::int64_t> tokens) const {
  for (std::size_t file = file_of(first); !tokens.empty(); ++file) {
    const auto count = std::min<std::int64_t>(starts_[file + 1] - first, std::ssize(tokens));
    files_[file].read(first - starts_[file], tokens.first(static_cast<std::size_t>(count)));
    tokens = tokens.subspan(static_cast<std::size_t>(count));
    first += count;
  }
}

void TokenSource::mark_documents(std::int64_t first, std::int64_t end, std::span<const std::int64_t> tokens,
                                 std::span<std::int64_t> starts) const {
  std::ranges::fill(starts, 0);
  const std::int64_t stop = first + std::ssize(tokens);
  for (std::size_t file = file_of(first); file < files_.size() && starts_[file] < stop; ++file) {
    const std::int64_t begin = std::max(first, starts_[file]), after = std::min(stop, starts_[file + 1]);
    if (begin >= after) continue;
    const auto part = starts.subspan(static_cast<std::size_t>(begin - first), static_cast<std::size_t>(after - begin));
    const MegatronDocuments* const indexed = files_[file].document_starts();
    if (indexed != nullptr) indexed->mark(begin - starts_[file], part);
    for (std::int64_t i = begin - first; indexed == nullptr && i < after - first; ++i)
      if (i > 0 && tokens[static_cast<std::size_t>(i) - 1] == end) starts[static_cast<std::size_t>(i)] = 1;
    // A file with an index is whole documents, so that one begins behind it, too.
    if (indexed != nullptr && after < stop) starts[static_cast<std::size_t>(after - first)] = 1;
    if (indexed != nullptr && begin == starts_[file]) part.front() = 1;
  }
}

TokenSource::Dividers TokenSource::dividers(std::int64_t end, std::int64_t most) const {
  Dividers found{true, false, 0};
  std::int64_t indexes = 0, pieces = 0;
  for (std::size_t file = 0; file < files_.size(); ++file) {
    const MegatronDocuments* const indexed = files_[file].document_starts();
    if (files_[file].tokens() == 0) continue;
    ++pieces;
    if (indexed != nullptr) {
      ++indexes;
      found.divide = found.divide || indexed->count() > 1;
      continue;
    }
    found.are_indexes = false;
    const std::int64_t searched = std::min(files_[file].tokens(), most - found.searched);
    found.divide = found.divide || files_[file].contains(end, searched);
    found.searched += searched;
  }
  found.divide = found.divide || (indexes > 0 && pieces > 1);
  return found;
}

}  // namespace llmtrain
