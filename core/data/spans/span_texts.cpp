// SPDX-License-Identifier: Apache-2.0
#include "core/data/spans/span_texts.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "core/base/error.h"
#include "core/data/examples/example_template.h"
#include "core/data/file_search.h"
#include "core/data/opened_texts.h"
#include "core/data/spans/windows.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

using SpanKey = OpenedTextsKey<SpansRecipe, std::int64_t>;

}  // namespace

class SpanTexts::Encoder {
 public:
  explicit Encoder(const SpanFiles& files)
      : tokenizer_(open_tokenizer(files.tokenizer, files.vocab_size)),
        encoder_(*tokenizer_),
        pieces_(example_template(files.tokenizer, *tokenizer_).pair),
        spans_(files.spans),
        room_(files.longest - ExampleTemplate::marks(pieces_)) {
    if (room_ > spans_.question_length + spans_.overlap) return;
    throw Error(ExitCode::bad_data,
                fmt::format("{}: puts {} marks around two texts, which leave a window no tokens of its own in "
                            "batch.sequence_length ({}) beside data.spans.question_length ({}) and overlap ({})",
                            files.tokenizer.file, ExampleTemplate::marks(pieces_), files.longest,
                            spans_.question_length, spans_.overlap));
  }

  const Tokenizer& tokenizer() const { return *tokenizer_; }

  // Makes tokens of a question and its text. Returns whether either has none.
  bool is_empty(const SpanRecord& read) {
    question_.clear();
    context_.clear();
    places_.clear();
    std::vector<TextPlace> unread;
    // As SQuAD's questions are read, of which some begin with white space.
    const std::size_t begin = std::min(read.question.find_first_not_of(" \t\n\r"), read.question.size());
    encoder_.encode(std::string_view(read.question).substr(begin), question_, unread);
    encoder_.encode(read.context, context_, places_);
    question_.resize(std::min(question_.size(), static_cast<std::size_t>(spans_.question_length)));
    return question_.empty() || context_.empty();
  }

  const std::vector<TextPlace>& places() const { return places_; }
  std::vector<TokenRun> windows() const {
    return windows_of(std::ssize(context_), room_ - std::ssize(question_), spans_.overlap);
  }

  // Appends a window of what is_empty() has made, and returns the row where the text begins.
  std::int64_t append(const TokenRun& window, std::vector<TokenId>& ids, std::vector<std::uint8_t>& types) const {
    const auto part = std::span(context_).subspan(static_cast<std::size_t>(window.begin),
                                                  static_cast<std::size_t>(window.end - window.begin));
    return static_cast<std::int64_t>(ExampleTemplate::append(pieces_, question_, part, ids, types));
  }

 private:
  std::shared_ptr<const Tokenizer> tokenizer_;
  PlacedEncoder encoder_;
  std::vector<ExampleTemplate::Piece> pieces_;
  SpansRecipe spans_;
  std::int64_t room_;  // for tokens of both texts
  std::vector<TokenId> question_, context_;
  std::vector<TextPlace> places_;  // of the context's
};

std::shared_ptr<const SpanTexts> SpanTexts::open(const SpanFiles& files, const ReportShare& report) {
  const auto found = find_files(files.path);
  const SpanKey key{versions_of(found), files.tokenizer, files.on_bad_line, {files.spans, files.longest}};
  return opened_texts<SpanTexts, SpanKey>().find_or_make(key, [&] {
    auto texts = std::make_shared<SpanTexts>();
    texts->bad_lines_ = BadLines(files.on_bad_line);
    Encoder encoder(files);
    texts->padding_ = padding_of_tokenizer(files.tokenizer, encoder.tokenizer()).value_or(0);
    for (std::size_t i = 0; i < found.size(); ++i)
      texts->add_file(found[i], files, encoder, share_of_part(report, i, found.size()));
    if (texts->count() == 0) throw texts->bad_lines_.nothing_left(files.path, "question");
    return texts;
  });
}

void SpanTexts::add_file(const fs::path& file, const SpanFiles& files, Encoder& encoder, const ReportShare& report) {
  paths_.push_back(file);
  const auto reader = open_conversation_records(file);
  for (Record record; bad_lines_.next(*reader, record); report(share_read(*reader, file))) {
    auto read = bad_lines_.read([&] { return span_record(record, file, files.spans); });
    if (!read) continue;
    if (encoder.is_empty(*read))
      ++without_words_;
    else
      add_question(*std::move(read), encoder);
  }
}

void SpanTexts::add_question(SpanRecord read, const Encoder& encoder) {
  const std::vector<TextPlace>& places = encoder.places();
  const std::vector<TokenRun> windows = encoder.windows();
  const std::size_t first_place = places_.size();
  places_.insert(places_.end(), places.begin(), places.end());
  for (const TokenRun& window : windows) {
    Stored stored{.begin = ids_.size(), .question = questions()};
    stored.first_row = encoder.append(window, ids_, types_);
    stored.end = ids_.size();
    stored.first_place = first_place + static_cast<std::size_t>(window.begin);
    stored.places = static_cast<std::size_t>(window.end - window.begin);
    if (!read.answers.empty()) {
      const SpanRecord::Answer& answer = read.answers.front();
      const auto rows = answer_in(window, places, {answer.begin, answer.begin + answer.text.size()});
      const auto row_of = [&](std::int64_t token) {
        return static_cast<std::int32_t>(stored.first_row + token - window.begin);
      };
      if (rows) stored.answer = {row_of(rows->begin), row_of(rows->end - 1)};
    }
    windows_.push_back(stored);
  }
  Question& question = questions_.emplace_back();
  question.first_window = count() - std::ssize(windows);
  question.windows = std::ssize(windows);
  for (SpanRecord::Answer& answer : read.answers) question.answers.push_back(std::move(answer.text));
  question.context = std::move(read.context);
}

SpanTexts::Window SpanTexts::window(std::int64_t number) const {
  const Stored& stored = windows_.at(static_cast<std::size_t>(number));
  const std::size_t length = stored.end - stored.begin;
  return {std::span(ids_).subspan(stored.begin, length),
          std::span(types_).subspan(stored.begin, length),
          stored.answer,
          stored.question,
          stored.first_row,
          std::span(places_).subspan(stored.first_place, stored.places)};
}

}  // namespace llmtrain
