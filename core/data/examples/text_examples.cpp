// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/text_examples.h"

#include <spdlog/fmt/fmt.h>

#include "core/base/error.h"
#include "core/data/file_search.h"
#include "core/data/opened_texts.h"
#include "core/data/records/documents.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

using TextKey = OpenedTextsKey<std::string, std::int64_t>;  // the key of a row's text, and the longest text

}  // namespace

struct TextExamples::Encoder {
  explicit Encoder(const TextFiles& files)
      : tokenizer(open_tokenizer(files.tokenizer, files.vocab_size)), encoder(tokenizer->make_encoder()) {
    const DocumentMarks& marks = tokenizer->marks();
    room = files.longest - std::ssize(marks.begin) - std::ssize(marks.end);
    if (room < 1)
      throw Error(ExitCode::bad_data,
                  fmt::format("{}: puts {} marks around a text, which leave no room for it in batch.sequence_length "
                              "({})",
                              files.tokenizer.file, files.longest - room, files.longest));
  }

  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<TextEncoder> encoder;
  std::int64_t room = 0;  // for the text itself
  std::vector<TokenId> text;
};

std::shared_ptr<const TextExamples> TextExamples::open(const TextFiles& files, const ReportShare& report) {
  const auto found = find_files(files.path);
  const TextKey key{versions_of(found), files.tokenizer, files.on_bad_line, {files.key, files.longest}};
  return opened_texts<TextExamples, TextKey>().find_or_make(key, [&] {
    auto texts = std::make_shared<TextExamples>();
    texts->bad_lines_ = BadLines(files.on_bad_line);
    Encoder encoder(files);
    texts->padding_ = padding_of_tokenizer(files.tokenizer, *encoder.tokenizer).value_or(0);
    for (std::size_t i = 0; i < found.size(); ++i)
      texts->add_file(found[i], files, encoder, share_of_part(report, i, found.size()));
    if (texts->count() == 0) throw texts->bad_lines_.nothing_left(files.path, "text");
    return texts;
  });
}

void TextExamples::add_file(const fs::path& file, const TextFiles& files, Encoder& encoder, const ReportShare& report) {
  if (is_token_file(file))
    throw Error(ExitCode::bad_data,
                file.string() +
                    ": is a token file, which does not say how its texts become samples of their own; set "
                    "data.masking.single_texts to false, or name files of text");
  paths_.push_back(file);
  const DocumentMarks& marks = encoder.tokenizer->marks();
  const auto reader = open_document_records(file, files.key);
  for (Record record; bad_lines_.next(*reader, record); report(share_read(*reader, file))) {
    const auto text = bad_lines_.read([&] { return document_of(record, file, files.key); });
    encoder.text.clear();
    if (text) encoder.encoder->encode(*text, encoder.text);
    if (encoder.text.empty()) continue;
    if (std::ssize(encoder.text) > encoder.room) {
      encoder.text.resize(static_cast<std::size_t>(encoder.room));
      ++truncated_;
    }
    const auto append = [&](const std::vector<TokenId>& part) { ids_.insert(ids_.end(), part.begin(), part.end()); };
    append(marks.begin);
    append(encoder.text);
    append(marks.end);
    begins_.push_back(ids_.size());
  }
}

}  // namespace llmtrain
