// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/labelled_texts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/base/error.h"
#include "core/data/examples/example_template.h"
#include "core/data/examples/label_records.h"
#include "core/data/file_search.h"
#include "core/data/opened_texts.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

using LabelledKey = OpenedTextsKey<LabelsRecipe, std::int64_t>;

}  // namespace

class LabelledTexts::Encoder {
 public:
  explicit Encoder(const LabelledFiles& files)
      : tokenizer_(open_tokenizer(files.tokenizer, files.vocab_size)),
        encoder_(tokenizer_->make_encoder()),
        template_(example_template(files.tokenizer, *tokenizer_)),
        longest_(files.longest) {
    const auto& pieces = files.labels.text_pair ? template_.pair : template_.single;
    if (const std::int64_t marks = ExampleTemplate::marks(pieces); marks >= longest_)
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: puts {} marks around a text, which leave no room for it in batch.sequence_length "
                              "({})",
                              files.tokenizer.file, marks, longest_));
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }

  // Makes tokens of a record, of which at most `longest` stay. Returns whether all do.
  bool encode(const LabelledRecord& record) {
    text_.clear();
    pair_.clear();
    word_rows_.clear();
    for (std::size_t i = 0; i < record.words.size(); ++i) {
      word_rows_.push_back(text_.size());
      // As the words stand in a text.
      encoder_->encode(i == 0 ? record.words[i] : " " + record.words[i], text_);
    }
    if (record.pair) encoder_->encode(*record.pair, pair_);
    pieces_ = record.pair ? &template_.pair : &template_.single;
    const auto room = static_cast<std::size_t>(longest_ - ExampleTemplate::marks(*pieces_));
    const bool fits = text_.size() + pair_.size() <= room;
    while (text_.size() + pair_.size() > room) (pair_.size() >= text_.size() ? pair_ : text_).pop_back();
    return fits;
  }

  bool is_empty() const { return text_.empty() && pair_.empty(); }

  // Appends what encode() has made.
  void append(std::vector<TokenId>& ids, std::vector<std::uint8_t>& types) const {
    ExampleTemplate::append(*pieces_, text_, pair_, ids, types);
  }

  // Appends a label for each row of what append() has appended; returns how many are of words. A word without tokens
  // has no row.
  std::int64_t append_labels(std::span<const std::int64_t> of_words, std::vector<std::int32_t>& labels) const {
    std::int64_t counted = 0;
    for (const ExampleTemplate::Piece& piece : *pieces_) {
      const bool is_text = piece.kind == ExampleTemplate::Piece::Kind::text;
      const std::size_t begin = labels.size();
      labels.insert(labels.end(), is_text ? text_.size() : 1, no_label);
      for (std::size_t word = 0; is_text && word < word_rows_.size(); ++word) {
        const std::size_t row = word_rows_[word];
        const std::size_t end = word + 1 < word_rows_.size() ? word_rows_[word + 1] : text_.size();
        if (row >= std::min(end, text_.size())) continue;
        labels[begin + row] = static_cast<std::int32_t>(of_words[word]);
        ++counted;
      }
    }
    return counted;
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  std::unique_ptr<TextEncoder> encoder_;
  ExampleTemplate template_;
  std::int64_t longest_;
  const std::vector<ExampleTemplate::Piece>* pieces_ = nullptr;
  std::vector<TokenId> text_, pair_;
  std::vector<std::size_t> word_rows_;  // where each word begins in text_
};

std::shared_ptr<const LabelledTexts> LabelledTexts::open(const LabelledFiles& files, const ReportShare& report) {
  const auto found = find_files(files.path);
  const LabelledKey key{versions_of(found), files.tokenizer, files.on_bad_line, {files.labels, files.longest}};
  return opened_texts<LabelledTexts, LabelledKey>().find_or_make(key, [&] {
    auto texts = std::make_shared<LabelledTexts>();
    texts->bad_lines_ = BadLines(files.on_bad_line);
    texts->part_ = files.labels.of;
    Encoder encoder(files);
    texts->padding_ = padding_of_tokenizer(files.tokenizer, encoder.tokenizer()).value_or(0);
    for (std::size_t i = 0; i < found.size(); ++i)
      texts->add_file(found[i], files, encoder, share_of_part(report, i, found.size()));
    if (texts->count() == 0) throw texts->bad_lines_.nothing_left(files.path, "text with a label");
    return texts;
  });
}

void LabelledTexts::add_file(const fs::path& file, const LabelledFiles& files, Encoder& encoder,
                             const ReportShare& report) {
  paths_.push_back(file);
  const auto reader = open_conversation_records(file);
  for (Record record; bad_lines_.next(*reader, record); report(share_read(*reader, file))) {
    const auto read = bad_lines_.read([&] { return labelled_record(record, file, files.labels); });
    if (!read) continue;
    const bool fits = encoder.encode(*read);
    if (encoder.is_empty()) {
      ++without_words_;
      continue;
    }
    encoder.append(ids_, types_);
    begins_.push_back(ids_.size());
    if (!fits) ++truncated_;
    if (part_ == LabelledPart::words) {
      counted_.push_back(encoder.append_labels(read->labels, labels_));
    } else {
      labels_.push_back(static_cast<std::int32_t>(read->labels.front()));
      counted_.push_back(1);
    }
  }
}

LabelledTexts::Example LabelledTexts::example(std::int64_t number) const {
  const auto place = static_cast<std::size_t>(number);
  const std::size_t begin = begins_.at(place), length = begins_.at(place + 1) - begin;
  const std::span labels(labels_);
  return {std::span(ids_).subspan(begin, length), std::span(types_).subspan(begin, length),
          part_ == LabelledPart::words ? labels.subspan(begin, length) : labels.subspan(place, 1)};
}

}  // namespace llmtrain
