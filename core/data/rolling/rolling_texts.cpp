// SPDX-License-Identifier: Apache-2.0
#include "core/data/rolling/rolling_texts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/data/file_search.h"
#include "core/data/records/documents.h"
#include "core/data/samples/dataset.h"
#include "core/jinja/values/text.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

std::int64_t word_count(std::string_view text) {
  std::int64_t words = 1;
  bool was_space = false;
  for (std::size_t position = 0; position < text.size();) {
    const bool is_space = jinja::is_space(jinja::next_character(text, position));
    if (is_space && !was_space) ++words;
    was_space = is_space;
  }
  return words;
}

// Where a text begins that no mark does: what an empty prompt of `sample` stands for.
constexpr TokenId newline = '\n';

}  // namespace

class RollingTexts::Encoder {
 public:
  Encoder(const TokenizerRecipe& recipe, std::int64_t vocab_size)
      : tokenizer_(open_tokenizer(recipe, vocab_size)),
        encoder_(tokenizer_->make_encoder()),
        prefix_(static_cast<TokenId>(prefix_of_tokenizer(recipe, *tokenizer_).value_or(newline))),
        prefix_text_(tokenizer_->decode(std::vector<std::int64_t>{prefix_})) {
    bool is_after = false;
    for (const TemplatePiece& piece : tokenizer_->templates().single) {
      if (is_after) end_.insert(end_.end(), piece.marks.begin(), piece.marks.end());
      is_after = is_after || piece.kind == TemplatePiece::Kind::first_text;
    }
  }

  TokenId prefix() const { return prefix_; }

  // As the tokenizer encodes a text by itself: with the marks that its template has around texts, unless the text
  // begins with one already.
  std::vector<TokenId> encode(const std::string& text) {
    // Where no text is written for the mark, as by SentencePiece, none begins with it.
    const bool has_marks = !prefix_text_.empty() && text.starts_with(prefix_text_);
    std::vector<TokenId> ids;
    if (!has_marks) ids = tokenizer_->marks().begin;
    encoder_->encode(text, ids);
    if (!has_marks) ids.insert(ids.end(), end_.begin(), end_.end());
    return ids;
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<TextEncoder> encoder_;
  TokenId prefix_;
  std::string prefix_text_;
  std::vector<TokenId> end_;  // of the template, not the end of documents that training adds
};

RollingTexts::RollingTexts(const std::vector<DataSource>& sources, const Recipe& recipe, std::int64_t window,
                           const std::string& role, std::size_t first_source, const WorkMonitor& monitor)
    : window_(window), vocab_size_(recipe.model.vocab_size), bad_lines_(recipe.data.on_bad_line) {
  std::optional<Encoder> encoder;
  for (std::size_t i = 0; i < sources.size(); ++i) {
    try {
      if (!encoder) encoder.emplace(recipe.data.tokenizer, vocab_size_);
      const ReportShare report = monitor.begin("reading " + sources[i].path);
      for (const auto& file : find_files(sources[i].path)) add_file(file, sources[i].text_key, *encoder, report);
    } catch (const Error& error) {
      if (error.code() == ExitCode::stopped) throw;
      throw with_key(error, recipe.data.tokenizer, name_of_source(role, first_source + i));
    }
  }
}

void RollingTexts::add_file(const std::filesystem::path& file, const std::string& key, Encoder& encoder,
                            const ReportShare& report) {
  const auto reader = open_document_records(file, key);
  const std::size_t begin = ids_.size();
  for (Record record; bad_lines_.next(*reader, record); report(share_read(*reader, file)))
    if (const auto text = bad_lines_.read([&] { return document_of(record, file, key); })) add(*text, encoder);
  const auto invalid = std::find_if(ids_.begin() + static_cast<std::ptrdiff_t>(begin), ids_.end(),
                                    [this](TokenId id) { return id >= vocab_size_; });
  if (invalid == ids_.end()) return;
  throw Error(ExitCode::bad_data, fmt::format("{}: has the id {}, which is not below model.vocab_size ({})",
                                              file.string(), *invalid, vocab_size_));
}

void RollingTexts::add(const std::string& text, Encoder& encoder) {
  const std::vector<TokenId> tokens = encoder.encode(text);
  const auto count = static_cast<std::int64_t>(tokens.size()), first = static_cast<std::int64_t>(ids_.size());
  counts_.texts += 1;
  counts_.words += word_count(text);
  counts_.bytes += static_cast<std::int64_t>(text.size());
  counts_.tokens += count;
  if (count == 0) return;
  ids_.push_back(encoder.prefix());
  ids_.insert(ids_.end(), tokens.begin(), tokens.end());
  for (std::int64_t scored = 0; scored < count; scored += windows_.back().scored) {
    const std::int64_t targets = std::min(window_, count - scored), end = scored + targets;
    const std::int64_t length = std::min(window_, end);
    windows_.push_back({first + end - length, length, targets});
  }
}

std::int64_t RollingTexts::longest_window() const {
  const auto longest = std::ranges::max_element(windows_, {}, &Window::length);
  return longest == windows_.end() ? 0 : longest->length;
}

}  // namespace llmtrain
