// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "core/base/long_work.h"
#include "core/data/conversations/rollout_row.h"
#include "core/data/samples/file_samples.h"
#include "core/data/samples/left_out.h"
#include "core/recipe/recipe.h"
#include "core/tokenizer/tokenizer.h"

namespace llmtrain {

class ChatTemplates;
class ConversationReader;

// Where one sample of T tokens is written.
struct LabelledSample {
  std::span<std::int64_t> tokens;   // padded with id 0
  std::span<std::int64_t> targets;  // ids, or not_counted
  // Experts of each token, RoutedLayers::numbers(); −1 where its router chooses. Empty: nobody asks.
  std::span<std::int64_t> experts{};
};

// The target of a token whose loss does not count: of a prompt, or padding.
inline constexpr std::int64_t not_counted = -1;

// The documents of one source for fine-tuning, tokenized and assigned to samples, in memory. Each document is in one
// sample; one that is longer than a sample is cut, and one of which no token counts, or then none any more, is left
// out. Samples have at least one token that counts. Immutable.
class LabelledDocuments {
 public:
  // `path` is what find_files() takes; its files are JSON Lines or JSON (core/data/conversations/conversation.h). Ranks
  // that are threads of one process share the result. Throws what find_files(), open_tokenizer(), ConversationReader
  // and encoding throw, and Error(bad_data) for other files and where no document counts.
  static std::shared_ptr<const LabelledDocuments> open(const std::string& path, const TokenizerRecipe& tokenizer,
                                                       const FineTuningRecipe& recipe, std::int64_t sequence_length,
                                                       const RolloutModel& model,
                                                       OnBadLine on_bad_line = OnBadLine::stop,
                                                       const ReportShare& report = report_nothing);

  std::int64_t samples() const { return static_cast<std::int64_t>(sample_begins_.size()) - 1; }
  std::int64_t documents() const { return static_cast<std::int64_t>(documents_.size()); }
  std::int64_t files() const { return static_cast<std::int64_t>(paths_.size()); }
  const std::vector<std::filesystem::path>& paths() const { return paths_; }
  std::int64_t tokens() const { return static_cast<std::int64_t>(ids_.size()); }
  const LeftOut& left_out() const { return left_out_; }
  // How many numbers each token has, for its experts; 0: none are told.
  std::int64_t expert_numbers() const { return expert_numbers_; }
  // Tokens of a sample whose losses count.
  std::int64_t counted(std::int64_t sample) const { return counted_[static_cast<std::size_t>(sample)]; }

  // A sample's documents, packed or not, without padding.
  std::vector<DocumentRows> documents_of(std::int64_t sample) const;
  // Writes a sample. With packing it returns its documents, of which the last is the padding, if there is any; without,
  // nothing.
  std::vector<DocumentRows> read(std::int64_t sample, const LabelledSample& into) const;

 private:
  struct Document {
    std::size_t begin = 0;    // in ids_
    std::int64_t length = 0;  // of the inputs; the last target is one further
    std::int64_t counted = 0;
  };
  struct Encoder;

  void add_file(const std::filesystem::path& file, Encoder& encoder, ConversationReader& conversations,
                std::int64_t sequence_length, const ReportShare& report);
  // `experts` of a document's tokens but the last; empty: routers choose.
  void add_document(std::span<const TokenId> labelled, std::int64_t sequence_length,
                    std::span<const std::int32_t> experts = {});
  static void warn_of_end(const ChatTemplates& templates, const TokenizerRecipe& tokenizer, Encoder& encoder);
  void assign_samples(bool packing, std::int64_t sequence_length);

  std::vector<TokenId> ids_;  // −1 − id where the token does not count as a target
  std::int64_t expert_numbers_ = 0;
  std::vector<std::int32_t> experts_;  // of each of ids_
  std::vector<Document> documents_;
  std::vector<std::int64_t> order_;         // documents, sample by sample
  std::vector<std::size_t> sample_begins_;  // in order_, and the end
  std::vector<std::int64_t> counted_;
  bool is_packed_ = false, has_messages_ = false;
  std::vector<std::filesystem::path> paths_;
  LeftOut left_out_;
};

}  // namespace llmtrain
