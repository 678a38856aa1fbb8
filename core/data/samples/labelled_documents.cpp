// SPDX-License-Identifier: Apache-2.0
#include "core/data/samples/labelled_documents.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <filesystem>
#include <utility>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/data/conversations/conversation.h"
#include "core/data/file_search.h"
#include "core/data/opened_texts.h"
#include "core/data/samples/packing.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// With the sequence's length, and which experts are read.
using DocumentKey = OpenedTextsKey<FineTuningRecipe, std::int64_t, std::optional<RoutedLayers>>;

// In memory, ids of tokens that do not count are negative.
TokenId unlabelled(TokenId labelled) { return labelled < 0 ? -1 - labelled : labelled; }

}  // namespace

struct LabelledDocuments::Encoder {
  Encoder(std::shared_ptr<const Tokenizer> opened, CountedTokens of)
      : tokenizer(std::move(opened)), encoder(tokenizer->make_encoder()), counted(of) {}

  std::shared_ptr<const Tokenizer> tokenizer;
  std::unique_ptr<TextEncoder> encoder;
  CountedTokens counted;
  std::vector<TokenId> labelled, part;  // scratch

  void append(std::span<const TokenId> ids, bool counts) {
    for (const TokenId id : ids) labelled.push_back(counts ? id : -1 - id);
  }

  std::size_t tokens_of(std::string_view text) {
    part.clear();
    encoder->encode(text, part);
    return part.size();
  }

  std::span<const TokenId> encode(const Conversation& conversation) {
    labelled.clear();
    if (conversation.rollout) {
      append(conversation.rollout->prompt, counted == CountedTokens::all);
      append(conversation.rollout->answer, true);
      return labelled;
    }
    const DocumentMarks& marks = tokenizer->marks();
    if (conversation.is_plain) append(marks.begin, false);
    for (const LabelledText& text : conversation.parts) {
      part.clear();
      encoder->encode(text.text, part);
      append(part, text.counts);
    }
    if (conversation.is_plain) append(marks.end, true);
    return labelled;
  }
};

std::shared_ptr<const LabelledDocuments> LabelledDocuments::open(
    const std::string& path, const TokenizerRecipe& tokenizer, const FineTuningRecipe& recipe,
    std::int64_t sequence_length, const RolloutModel& model, OnBadLine on_bad_line, const ReportShare& report) {
  const auto files = find_files(path);
  const DocumentKey key{versions_of(files), tokenizer, on_bad_line, {recipe, sequence_length, model.routed}};
  return opened_texts<LabelledDocuments, DocumentKey>().find_or_make(key, [&] {
    auto documents = std::make_shared<LabelledDocuments>();
    documents->left_out_.bad_lines = BadLines(on_bad_line);
    if (model.routed) documents->expert_numbers_ = model.routed->numbers();
    Encoder encoder(open_tokenizer(tokenizer, model.vocab_size), recipe.counted);
    ConversationReader conversations(recipe, tokenizer, model);
    for (std::size_t i = 0; i < files.size(); ++i)
      documents->add_file(files[i], encoder, conversations, sequence_length, share_of_part(report, i, files.size()));
    if (documents->documents_.empty())
      throw Error(ExitCode::bad_data,
                  fmt::format("'{}': holds no document of which a token counts in the loss: {}", path,
                              fmt::join(sentences_of(documents->left_out_, sequence_length), "; ")));
    if (documents->has_messages_) warn_of_end(conversations.templates(), tokenizer, encoder);
    documents->assign_samples(recipe.packing, sequence_length);
    return documents;
  });
}

// A model that is to stop must learn a token that says so.
void LabelledDocuments::warn_of_end(const ChatTemplates& templates, const TokenizerRecipe& tokenizer,
                                    Encoder& encoder) {
  const auto end = templates.end_of_answer();
  if (!end || tokenizer.kind == TokenizerKind::bytes) return;
  if (end->empty()) {
    log().warn("{}: writes nothing behind an answer, so that a model does not learn where to end", templates.name());
  } else if (encoder.tokens_of(*end) != 1) {
    log().warn("{}: {} is not one token, so that messages end with text; choose data.fine_tuning.template",
               tokenizer.file, *end);
  }
}

void LabelledDocuments::add_file(const fs::path& file, Encoder& encoder, ConversationReader& conversations,
                                 std::int64_t sequence_length, const ReportShare& report) {
  paths_.push_back(file);
  const auto reader = open_conversation_records(file);
  for (Record record; left_out_.bad_lines.next(*reader, record); report(share_read(*reader, file))) {
    const auto conversation = left_out_.bad_lines.read([&] { return conversations.read(record, file); });
    if (!conversation) continue;
    has_messages_ = has_messages_ || !(conversation->is_plain || conversation->parts.empty());
    const auto experts = conversation->rollout ? std::span<const std::int32_t>(conversation->rollout->experts)
                                               : std::span<const std::int32_t>();
    add_document(encoder.encode(*conversation), sequence_length, experts);
  }
}

void LabelledDocuments::add_document(std::span<const TokenId> labelled, std::int64_t sequence_length,
                                     std::span<const std::int32_t> experts) {
  // One more than the inputs, for the last target.
  const auto longest = static_cast<std::size_t>(sequence_length) + 1;
  const bool is_cut = labelled.size() > longest;
  if (is_cut) labelled = labelled.first(longest);
  // The first token is never predicted.
  const auto counted =
      labelled.empty() ? 0 : std::ranges::count_if(labelled.subspan(1), [](TokenId id) { return id >= 0; });
  if (counted == 0) {
    ++(is_cut ? left_out_.too_long : left_out_.no_answer);
    return;
  }
  if (is_cut) ++left_out_.truncated;
  documents_.push_back({ids_.size(), static_cast<std::int64_t>(labelled.size()) - 1, counted});
  ids_.insert(ids_.end(), labelled.begin(), labelled.end());
  // A text tells none of its last token, and one that is cut ends earlier.
  experts_.insert(experts_.end(), experts.begin(), experts.end());
  experts_.resize(ids_.size() * static_cast<std::size_t>(expert_numbers_), -1);
}

void LabelledDocuments::assign_samples(bool packing, std::int64_t sequence_length) {
  is_packed_ = packing;
  std::vector<std::int64_t> lengths;
  // Unpacked, each document fills a sample.
  for (const Document& document : documents_) lengths.push_back(packing ? document.length : sequence_length);
  sample_begins_.push_back(0);
  for (const auto& documents : pack(lengths, sequence_length)) {
    order_.insert(order_.end(), documents.begin(), documents.end());
    sample_begins_.push_back(order_.size());
    std::int64_t counted = 0;
    for (const std::int64_t document : documents) counted += documents_[static_cast<std::size_t>(document)].counted;
    counted_.push_back(counted);
  }
}

std::vector<DocumentRows> LabelledDocuments::documents_of(std::int64_t sample) const {
  std::vector<DocumentRows> rows;
  std::int64_t row = 0;
  const auto place = static_cast<std::size_t>(sample);
  for (std::size_t i = sample_begins_[place]; i < sample_begins_[place + 1]; ++i) {
    rows.push_back({row, documents_[static_cast<std::size_t>(order_[i])].length});
    row += rows.back().length;
  }
  return rows;
}

std::vector<DocumentRows> LabelledDocuments::read(std::int64_t sample, const LabelledSample& into) const {
  std::ranges::fill(into.tokens, 0);
  std::ranges::fill(into.targets, not_counted);
  std::ranges::fill(into.experts, -1);
  std::vector<DocumentRows> rows;
  std::int64_t row = 0;
  const auto first = sample_begins_[static_cast<std::size_t>(sample)];
  const auto last = sample_begins_[static_cast<std::size_t>(sample) + 1];
  for (std::size_t i = first; i < last; ++i) {
    const Document& document = documents_[static_cast<std::size_t>(order_[i])];
    const auto ids = std::span(ids_).subspan(document.begin, static_cast<std::size_t>(document.length) + 1);
    for (std::int64_t k = 0; k < document.length; ++k) {
      const auto place = static_cast<std::size_t>(row + k);
      const TokenId target = ids[static_cast<std::size_t>(k) + 1];
      into.tokens[place] = unlabelled(ids[static_cast<std::size_t>(k)]);
      if (target >= 0) into.targets[place] = target;
    }
    if (!into.experts.empty()) {
      const auto numbers = static_cast<std::size_t>(expert_numbers_);
      const auto own =
          std::span(experts_).subspan(document.begin * numbers, static_cast<std::size_t>(document.length) * numbers);
      std::ranges::copy(own, into.experts.begin() + static_cast<std::ptrdiff_t>(row * expert_numbers_));
    }
    rows.push_back({row, document.length});
    row += document.length;
  }
  if (!is_packed_) return {};
  const std::int64_t padding = std::ssize(into.tokens) - row;
  if (padding > 0) rows.push_back({row, padding});
  return rows;
}

}  // namespace llmtrain
