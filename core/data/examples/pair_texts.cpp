// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/pair_texts.h"

#include <spdlog/fmt/fmt.h>

#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/data/examples/example_row.h"
#include "core/data/examples/example_template.h"
#include "core/data/file_search.h"
#include "core/data/opened_texts.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;
using Piece = ExampleTemplate::Piece;

// The longest source and target, and whether targets are kept as they are written.
using PairKey = OpenedTextsKey<PairsRecipe, std::int64_t, std::int64_t, bool>;

std::int64_t decoder_start_of(const PairFiles& files, std::optional<std::int64_t> padding) {
  if (files.pairs.decoder_start) return *files.pairs.decoder_start;
  if (padding) return *padding;
  throw Error(ExitCode::bad_data, files.tokenizer.file +
                                      ": names no padding, which begins what a decoder reads; "
                                      "data.pairs.decoder_start must be the id of another token");
}

}  // namespace

class PairTexts::Encoder {
 public:
  explicit Encoder(const PairFiles& files)
      : tokenizer_(open_tokenizer(files.tokenizer, files.vocab_size)),
        encoder_(tokenizer_->make_encoder()),
        pieces_(example_template(files.tokenizer, *tokenizer_).single),
        source_room_(room(files, files.longest_source, "batch.sequence_length")),
        target_room_(room(files, files.longest_target, "data.pairs.target_length")) {
    if (pieces_.back().kind != Piece::Kind::mark)
      throw Error(ExitCode::bad_data, files.tokenizer.file +
                                          ": puts no mark at the end of a text, by which a model of data.pairs tells "
                                          "that a target ends; needs a tokenizer that does");
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }

  // Makes tokens of both texts. Returns whether either has none.
  bool is_empty(const std::string& source, const std::string& target) {
    source_.clear();
    target_.clear();
    encoder_->encode(source, source_);
    encoder_->encode(target, target_);
    return source_.empty() || target_.empty();
  }

  // Appends what is_empty() has made, between the tokenizer's marks. Returns whether it is whole.
  bool append(Texts& sources, Texts& targets) {
    const bool source_fits = append(source_, source_room_, sources);
    return append(target_, target_room_, targets) && source_fits;
  }

 private:
  std::size_t room(const PairFiles& files, std::int64_t longest, std::string_view key) const {
    const std::int64_t marks = ExampleTemplate::marks(pieces_);
    if (marks < longest) return static_cast<std::size_t>(longest - marks);
    throw Error(ExitCode::bad_data, fmt::format("{}: puts {} marks around a text, which with a row of padding leave no "
                                                "room for it in {} ({})",
                                                files.tokenizer.file, marks, key, longest + 1));
  }

  bool append(std::vector<TokenId>& text, std::size_t room, Texts& texts) const {
    const bool fits = text.size() <= room;
    if (!fits) text.resize(room);
    for (const Piece& piece : pieces_) {
      if (piece.kind == Piece::Kind::mark)
        texts.ids.push_back(piece.id);
      else
        texts.ids.insert(texts.ids.end(), text.begin(), text.end());
    }
    texts.begins.push_back(texts.ids.size());
    return fits;
  }

  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<TextEncoder> encoder_;
  std::vector<Piece> pieces_;
  std::size_t source_room_, target_room_;  // for the texts themselves
  std::vector<TokenId> source_, target_;
};

std::shared_ptr<const PairTexts> PairTexts::open(const PairFiles& files, const ReportShare& report) {
  const auto found = find_files(files.path);
  const PairKey key{versions_of(found),
                    files.tokenizer,
                    files.on_bad_line,
                    {files.pairs, files.longest_source, files.longest_target, files.keeps_targets}};
  return opened_texts<PairTexts, PairKey>().find_or_make(key, [&] {
    auto texts = std::make_shared<PairTexts>();
    texts->bad_lines_ = BadLines(files.on_bad_line);
    Encoder encoder(files);
    const auto padding = padding_of_tokenizer(files.tokenizer, encoder.tokenizer());
    texts->padding_ = padding.value_or(0);
    texts->decoder_start_ = decoder_start_of(files, padding);
    for (std::size_t i = 0; i < found.size(); ++i)
      texts->add_file(found[i], files, encoder, share_of_part(report, i, found.size()));
    if (texts->count() == 0) throw texts->bad_lines_.nothing_left(files.path, "pair of texts");
    return texts;
  });
}

void PairTexts::add_file(const fs::path& file, const PairFiles& files, Encoder& encoder, const ReportShare& report) {
  paths_.push_back(file);
  struct Read {
    std::string source, target;
  };
  const auto reader = open_conversation_records(file);
  for (Record record; bad_lines_.next(*reader, record); report(share_read(*reader, file))) {
    const std::optional<Read> read = bad_lines_.read([&]() -> Read {
      const ExampleRow row(record, file, "data.pairs");
      return {row.text_at(source_key(files.pairs)), row.text_at(target_key(files.pairs))};
    });
    if (!read) continue;
    if (read->source.empty() || encoder.is_empty(files.pairs.prefix.value_or("") + read->source, read->target)) {
      ++without_words_;
      continue;
    }
    if (!encoder.append(sources_, targets_)) ++truncated_;
    if (files.keeps_targets) written_targets_.push_back(read->target);
  }
}

}  // namespace llmtrain
