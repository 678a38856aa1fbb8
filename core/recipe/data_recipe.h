// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace llmtrain {

// The recipe's section `data`, as core/recipe/recipe.h describes recipes.

enum class TokenizerKind { bytes, sentencepiece, huggingface };

struct TokenizerRecipe {
  TokenizerKind kind = TokenizerKind::bytes;
  std::string file;  // empty for bytes

  bool operator==(const TokenizerRecipe&) const = default;
};

// The key of documents in rows, by custom.
inline constexpr const char* document_key = "text";

struct DataSource {
  std::string path;  // file, folder or glob; absolute after reading
  double weight = 1;
  std::string text_key = document_key;             // of the text in rows of JSON Lines and tables
  std::optional<std::string> name = std::nullopt;  // of the set that a source of validation data belongs to

  bool operator==(const DataSource&) const = default;
};

// How messages are written out: as the tokenizer's own folder says, by a template that has a name, or by one of a file.
enum class ChatTemplate { automatic, chatml, llama3, file };

struct ChatTemplateRecipe {
  ChatTemplate kind = ChatTemplate::chatml;
  std::string file;  // with ChatTemplate::file: Jinja, or a tokenizer_config.json

  bool operator==(const ChatTemplateRecipe&) const = default;
};

// Which tokens of a conversation count in the loss.
enum class CountedTokens { completions, all };

// What becomes of a prompt with two answers, of which one is preferred: there is no loss that compares them.
enum class Preferences { refuse, chosen };

// The keys of conversations in files, where they are not those by which they are known.
struct ConversationFieldsRecipe {
  std::optional<std::string> messages, role, content, prompt, completion, instruction, input, output, chosen, rejected;

  bool operator==(const ConversationFieldsRecipe&) const = default;
};

// Further names that files have for roles.
struct ConversationRolesRecipe {
  std::vector<std::string> system, user, assistant, tool;

  bool operator==(const ConversationRolesRecipe&) const = default;
};

struct FineTuningRecipe {
  ChatTemplateRecipe chat_template{};
  CountedTokens counted = CountedTokens::completions;
  bool packing = true;
  std::optional<std::string> date{};    // that templates are told: YYYY-MM-DD
  std::vector<std::string> left_out{};  // keys of messages
  Preferences preferences = Preferences::refuse;
  bool routing_replay = false;  // tokens go to the experts that rows tell
  ConversationFieldsRecipe fields{};
  ConversationRolesRecipe roles{};

  bool operator==(const FineTuningRecipe&) const = default;
};

// A number of tokens that grows from `start` to a whole sequence within `steps` steps
// (core/recipe/schedules/length_schedule.h).
struct LengthScheduleRecipe {
  std::int64_t start = 0;
  std::int64_t steps = 0;
  std::int64_t multiple = 8;
  double degree = 1;

  bool operator==(const LengthScheduleRecipe&) const = default;
};

// What becomes of samples that are longer than a step's sequences.
enum class LongSamples { truncate, reshape };

// Training begins with short sequences (Li et al., arXiv 2212.03597).
struct SequenceLengthCurriculum {
  LengthScheduleRecipe schedule;
  LongSamples method = LongSamples::truncate;

  bool operator==(const SequenceLengthCurriculum&) const = default;
};

// Training begins with the samples of the most frequent tokens (the same paper, as DeepSpeed's fixed_root with the
// difficulty type "percentile"): core/recipe/easiest_share.h.
struct VocabularyRarityCurriculum {
  std::int64_t start = 1;  // percent
  std::int64_t steps = 0;
  double degree = 2;

  bool operator==(const VocabularyRarityCurriculum&) const = default;
};

struct CurriculumRecipe {
  std::optional<SequenceLengthCurriculum> sequence_length;
  std::optional<VocabularyRarityCurriculum> vocabulary_rarity;

  bool operator==(const CurriculumRecipe&) const = default;
};

// Attention stays within the documents of a sequence (Llama Team, "The Llama 3 Herd of Models", arXiv 2407.21783,
// section 3.2).
struct DocumentMaskRecipe {
  std::optional<std::int64_t> end_of_text;  // the id of the token that ends a document; none: the tokenizer's

  bool operator==(const DocumentMaskRecipe&) const = default;
};

// Some tokens of a text are hidden, and are to be told from those on both sides (Devlin et al., arXiv 1810.04805,
// section 3.1).
struct MaskingRecipe {
  double probability = 0.15;  // share of a text's tokens that are to be predicted
  double replaced = 0.8;      // of which become the mask, and random ones
  double random = 0.1;
  bool whole_words = false;
  bool single_texts = false;            // each text has a sequence, with padding; else they follow one another
  std::optional<std::int64_t> token{};  // the mask's id; none: the tokenizer's

  bool operator==(const MaskingRecipe&) const = default;
};

// What becomes of parts of a text that a model is to restore: each becomes a mark of its own, and the targets are the
// parts behind their marks (Raffel et al., arXiv 1910.10683, section 3.1.4); or a mask, and the target is the whole
// text (Lewis et al., arXiv 1910.13461, section 2.2).
enum class Noise { spans, infilling };

// Texts are damaged, and are to be restored.
struct DenoisingRecipe {
  Noise noise = Noise::spans;
  std::optional<double> probability{};  // share of a text's tokens that is taken out; none: that of the papers
  double mean_span = 3;                 // tokens that are taken out together, on average
  bool permute_sentences = false;
  bool single_texts = false;                    // each text has a sequence, with padding; else they follow one another
  std::optional<std::int64_t> token{};          // the mask's id; none: the tokenizer's
  std::optional<std::int64_t> decoder_start{};  // id after which a target is predicted; none: that of padding

  bool operator==(const DenoisingRecipe&) const = default;
};

inline double noise_share(const DenoisingRecipe& denoising) {
  return denoising.probability.value_or(denoising.noise == Noise::spans ? 0.15 : 0.3);
}

// What has a label: a text, or two together; or each word of a text.
enum class LabelledPart { text, words };

// Texts have labels, which a model is to tell. Without a name a key is called as it is by custom.
struct LabelsRecipe {
  LabelledPart of = LabelledPart::text;
  std::vector<std::string> classes{};          // names; a label is the number of one
  std::optional<std::string> text{}, label{};  // keys of rows
  std::optional<std::string> text_pair{};      // of a second text; none: there is one text

  bool operator==(const LabelsRecipe&) const = default;
};

inline std::string words_key(const LabelsRecipe& labels) {
  return labels.text.value_or(labels.of == LabelledPart::words ? "tokens" : document_key);
}
inline std::string label_key(const LabelsRecipe& labels) {
  return labels.label.value_or(labels.of == LabelledPart::words ? "tags" : "label");
}

// Texts that are to be made of others, as translations and summaries are. Without a name a key is called as it is by
// custom.
struct PairsRecipe {
  std::optional<std::string> source{}, target{};  // keys of rows
  std::optional<std::string> prefix{};            // put before each source
  std::optional<std::int64_t> target_length{};    // tokens of a target's sequence; none: batch.sequence_length
  std::optional<std::int64_t> decoder_start{};    // id after which a target is predicted; none: that of padding

  bool operator==(const PairsRecipe&) const = default;
};

inline std::string source_key(const PairsRecipe& pairs) { return pairs.source.value_or("source"); }
inline std::string target_key(const PairsRecipe& pairs) { return pairs.target.value_or("target"); }

// Questions whose answers stand in a text, which a model is to find. Without a name a key is called as it is by custom.
struct SpansRecipe {
  std::optional<std::string> question{}, context{}, answers{};  // keys of rows
  bool unanswerable = false;                                    // a question may have no answer
  std::int64_t question_length = 64;                            // tokens that are kept of a question
  std::int64_t overlap = 128;                                   // tokens of a text that two of its windows share
  std::int64_t answer_length = 30;                              // tokens of the longest answer that is told

  bool operator==(const SpansRecipe&) const = default;
};

inline std::string question_key(const SpansRecipe& spans) { return spans.question.value_or("question"); }
inline std::string context_key(const SpansRecipe& spans) { return spans.context.value_or("context"); }
inline std::string answers_key(const SpansRecipe& spans) { return spans.answers.value_or("answers"); }

// A number for each colour.
struct ColoursRecipe {
  double red = 0.5;
  double green = 0.5;
  double blue = 0.5;

  bool operator==(const ColoursRecipe&) const = default;
};

// Random parts of training images, perhaps mirrored (Szegedy et al., arXiv 1409.4842).
struct ImageAugmentationRecipe {
  double least_area = 0.08;  // share of an image
  double most_area = 1;
  double least_ratio = 0.75;  // width ÷ height
  double most_ratio = 4.0 / 3;
  double mirrored = 0.5;  // probability

  bool operator==(const ImageAugmentationRecipe&) const = default;
};

// What is seen of an image where nothing is drawn at random: the middle, or all of it, whatever its sides.
enum class ImageFit { middle, stretch };

// Images of classes, in folders that each have the name of one.
struct ImagesRecipe {
  std::vector<std::string> classes{};
  ImageFit fit = ImageFit::middle;
  std::optional<std::int64_t> shorter_side{};  // pixels, before the middle is cut out; none: model.image.size · 8/7
  ColoursRecipe mean{}, deviation{};
  std::optional<ImageAugmentationRecipe> augmentation{};

  bool operator==(const ImagesRecipe&) const = default;
};

// As torchvision's models have it: 256 for 224.
inline std::int64_t shorter_side(const ImagesRecipe& images, std::int64_t size) {
  return images.shorter_side.value_or(size * 8 / 7);
}

// What becomes of a line of data that is no document or conversation: it ends the command, or is left out and counted.
enum class OnBadLine { stop, skip };

// Whether validation data are sets that each have a name and a loss; otherwise they are sources of one.
inline bool are_named_sets(const std::vector<DataSource>& validation) {
  return !validation.empty() && validation.front().name.has_value();
}

struct DataRecipe {
  TokenizerRecipe tokenizer;
  std::optional<FineTuningRecipe> fine_tuning;
  std::optional<DocumentMaskRecipe> document_mask;
  std::optional<MaskingRecipe> masking;
  std::optional<DenoisingRecipe> denoising;
  std::optional<LabelsRecipe> labels;
  std::optional<PairsRecipe> pairs;
  std::optional<SpansRecipe> spans;
  std::optional<ImagesRecipe> images;
  CurriculumRecipe curriculum;
  std::vector<DataSource> train;
  std::vector<DataSource> validation;
  bool shuffle = true;
  OnBadLine on_bad_line = OnBadLine::stop;

  bool operator==(const DataRecipe&) const = default;
};

// Whether each of the texts in files is an example of its own, so that files of tokens have no place for them.
inline bool are_examples(const DataRecipe& data) {
  return data.fine_tuning || data.labels || data.pairs || data.spans || (data.masking && data.masking->single_texts) ||
         (data.denoising && data.denoising->single_texts);
}

// Whether data are texts that follow one another, so that files of their tokens may stand for them.
inline bool may_be_tokens(const DataRecipe& data) { return !are_examples(data) && !data.images; }

// Whether documents may share sequences, of which padding is one, so that attention stays within each.
inline bool has_documents(const DataRecipe& data) { return data.document_mask || data.denoising || are_examples(data); }

// The id after which an encoder-decoder's targets are predicted; none: that of padding.
inline std::optional<std::int64_t> decoder_start(const DataRecipe& data) {
  if (data.pairs) return data.pairs->decoder_start;
  return data.denoising ? data.denoising->decoder_start : std::nullopt;
}

}  // namespace llmtrain
