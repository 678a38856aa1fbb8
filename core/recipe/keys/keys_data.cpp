// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/recipe/enum_words.h"
#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr std::array<std::string_view, 2> long_sample_words = {"truncate", "reshape"};

constexpr std::array<std::string_view, 2> counted_words = {"completions", "all"};
constexpr std::array<std::string_view, 2> preference_words = {"refuse", "chosen"};
constexpr std::array<std::string_view, 2> labelled_words = {"text", "words"};

void describe_fields(KeyVisitor& keys, ConversationFieldsRecipe& fields) {
  const auto field = [&](std::string_view name, std::string_view help, std::optional<std::string>& named) {
    keys.nullable_text({name, help}, named, {});
  };
  field("messages", "Key of a conversation's list of messages; null: messages, conversations or conversation.",
        fields.messages);
  field("role", "Key of who a message is from; null: role or from.", fields.role);
  field("content", "Key of a message's text; null: content or value.", fields.content);
  field("prompt", "Key of a text, or messages, that a completion continues; null: prompt.", fields.prompt);
  field("completion", "Key of what continues a prompt; null: completion.", fields.completion);
  field("instruction", "Key of what a user asks for, in a line without messages; null: instruction.",
        fields.instruction);
  field("input", "Key of what the user adds to an instruction, in a line of its own; null: input.", fields.input);
  field("output", "Key of the answer to an instruction; null: output.", fields.output);
  field("chosen", "Key of the preferred one of two answers; null: chosen.", fields.chosen);
  field("rejected", "Key of the other one; null: rejected.", fields.rejected);
}

void describe_roles(KeyVisitor& keys, ConversationRolesRecipe& roles) {
  const auto role = [&](std::string_view name, std::string_view help, std::vector<std::string>& named) {
    keys.texts({name, help}, named, "a list of names");
  };
  role("system", "Further names of the role system.", roles.system);
  role("user", "Further names of the role user, besides human.", roles.user);
  role("assistant", "Further names of the role assistant, besides gpt.", roles.assistant);
  role("tool", "Further names of the role tool, besides observation.", roles.tool);
}

void describe_fine_tuning(KeyVisitor& keys, FineTuningRecipe& fine_tuning) {
  keys.chat_template(
      {"template",
       "How messages are written out as text: as ChatML (Qwen) or Llama 3 does, by the chat template of a "
       "file, or auto, the one beside the tokenizer's file.",
       "model.from's own, else chatml"},
      fine_tuning.chat_template);
  keys.choice({"loss", "Whose tokens count in the loss: completions and the answers of \"assistant\" alone, or all."},
              fine_tuning.counted, counted_words);
  keys.boolean({"packing",
                "Several documents share a sequence, and attention and positions stay within each; otherwise each "
                "document fills a sequence with padding."},
               fine_tuning.packing);
  keys.nullable_text({"date",
                      "The day that a template is told where it asks for it, as 2024-07-26; null: such a template is "
                      "refused, as every day would make other tokens."},
                     fine_tuning.date, {});
  keys.texts(
      {"leave_out", "Keys of messages that may be left out where the template does not name them; others are refused."},
      fine_tuning.left_out, "a list of keys");
  keys.choice({"preferences",
               "What becomes of preference pairs, as no loss compares two answers: they are refused, or the chosen "
               "answers are trained on."},
              fine_tuning.preferences, preference_words);
  keys.boolean({"routing_replay",
                "Tokens of texts that serve has written go to the experts that their rows tell (routed_experts), by "
                "gates of the model's own routers; where none are told, these choose."},
               fine_tuning.routing_replay);
  keys.section({"fields", "Keys of the data that are called otherwise."},
               [&] { describe_fields(keys, fine_tuning.fields); });
  keys.section({"roles", "Roles of the data that are called otherwise."},
               [&] { describe_roles(keys, fine_tuning.roles); });
}

void describe_curriculum(KeyVisitor& keys, CurriculumRecipe& curriculum) {
  keys.optional_section({"sequence_length", "Begins with short sequences; null: all are batch.sequence_length long."},
                        curriculum.sequence_length, [&](SequenceLengthCurriculum& lengths) {
                          describe_length_schedule(keys, lengths.schedule);
                          keys.choice({"method",
                                       "What becomes of the rest of a sample: it is left out, or makes further "
                                       "sequences of the micro-batch."},
                                      lengths.method, long_sample_words);
                        });
  keys.optional_section(
      {"vocabulary_rarity",
       "Begins with the samples whose tokens are the most frequent ones; null: all from the start."},
      curriculum.vocabulary_rarity, [&](VocabularyRarityCurriculum& rarity) {
        keys.integer({"start", "Percent of the samples of each source, the easiest, that training begins with."},
                     rarity.start, {1, 100});
        keys.integer({"steps", "Step from which on it is all samples.", "", Presence::required}, rarity.steps,
                     {1, most_steps});
        keys.number({"degree", "The share grows with this root of the steps done."}, rarity.degree, {1, 100});
      });
}

void describe_masking(KeyVisitor& keys, MaskingRecipe& masking) {
  keys.number({"probability",
               "Share of a text's tokens that are to be predicted: of a sample exactly so many, rounded, and at least "
               "one."},
              masking.probability, {0, 1, RangeEnds::open_minimum});
  keys.number({"replaced", "Share of these that become the mask."}, masking.replaced, {0, 1});
  keys.number({"random", "Share of these that become a random token; the rest stays as it is."}, masking.random,
              {0, 1});
  keys.boolean({"whole_words", "The pieces of a word are hidden together."}, masking.whole_words);
  keys.boolean({"single_texts",
                "Each text is a sample of its own, cut at batch.sequence_length and filled with padding; otherwise "
                "texts follow one another and fill the sequences."},
               masking.single_texts);
  keys.automatic_integer({"token", "Id of the token that masks others; auto: the tokenizer's."}, masking.token,
                         {0, 1 << 30});
}

void describe_labels(KeyVisitor& keys, LabelsRecipe& labels) {
  keys.choice({"of", "What has a label: a text, or two together; or each word of a text, as names in it have."},
              labels.of, labelled_words);
  keys.texts({"classes", "Names of the classes, of which the first is label 0.", "", Presence::required},
             labels.classes, "a list of names");
  keys.nullable_text({"text", "Key of the text, or the list of words; null: text, or tokens."}, labels.text, {});
  keys.nullable_text({"text_pair", "Key of a second text; null: there is one text."}, labels.text_pair, {});
  keys.nullable_text({"label", "Key of the label, or the list of labels; null: label, or tags."}, labels.label, {});
}

void describe_pairs(KeyVisitor& keys, PairsRecipe& pairs) {
  keys.nullable_text({"source", "Key of the text that is read, or a JSON pointer; null: source."}, pairs.source, {});
  keys.nullable_text({"target", "Key of the text that is to be made of it, or a JSON pointer; null: target."},
                     pairs.target, {});
  keys.nullable_text({"prefix", "Put before each source, as T5's tasks are named; null: nothing."}, pairs.prefix, {});
  keys.automatic_integer({"target_length", "Tokens of a target's sequence; auto: batch.sequence_length."},
                         pairs.target_length, {2, 1 << 30});
  keys.automatic_integer(
      {"decoder_start", "Id after which a target's first token is predicted; auto: the tokenizer's padding."},
      pairs.decoder_start, {0, 1 << 30});
}

void describe_source(KeyVisitor& keys, DataSource& source) {
  keys.text(
      {"path", "A text, .jsonl, .csv, .parquet or .bin file, a folder, or a glob; with images a folder of classes.", "",
       Presence::required},
      source.path, {TextKind::path});
  keys.number({"weight", "Share of the samples drawn from this source, relative to the other weights."}, source.weight,
              {0, 1e9, RangeEnds::open_minimum});
  keys.text({"text_key", "Key of the documents in JSON Lines and JSON, or their column in a table."}, source.text_key,
            {});
}

}  // namespace

void describe_data(KeyVisitor& keys, DataRecipe& data) {
  keys.section({"data", "Data sets; needed to run and evaluate, not to validate or plan."}, [&] {
    keys.tokenizer({"tokenizer", "How text is turned into token ids: one id per byte, or a tokenizer file.",
                    "model.from's own, else bytes"},
                   data.tokenizer);
    keys.optional_section({"fine_tuning",
                           "Trains on conversations: messages, or prompts and their completions, in JSON; null: text "
                           "and token files."},
                          data.fine_tuning,
                          [&](FineTuningRecipe& fine_tuning) { describe_fine_tuning(keys, fine_tuning); });
    keys.optional_section({"document_mask",
                           "Attention and positions stay within each document of a sequence of text or token files; "
                           "null: they reach over the ends of documents."},
                          data.document_mask, [&](DocumentMaskRecipe& mask) {
                            keys.automatic_integer(
                                {"end_of_text", "Id of the token that ends a document; auto: the tokenizer's."},
                                mask.end_of_text, {0, 1 << 30});
                          });
    keys.optional_section({"masking",
                           "Trains an encoder to tell hidden tokens of texts from the others; null: to tell the token "
                           "that follows."},
                          data.masking, [&](MaskingRecipe& masking) { describe_masking(keys, masking); });
    keys.optional_section({"denoising",
                           "Trains an encoder-decoder to restore texts that are damaged; null: texts are read as they "
                           "are."},
                          data.denoising, [&](DenoisingRecipe& denoising) { describe_denoising(keys, denoising); });
    keys.optional_section({"labels", "Trains on texts with labels, in rows; null: texts have none."}, data.labels,
                          [&](LabelsRecipe& labels) { describe_labels(keys, labels); });
    keys.optional_section({"pairs", "Trains on texts that are to be made of others, in rows; null: texts have none."},
                          data.pairs, [&](PairsRecipe& pairs) { describe_pairs(keys, pairs); });
    keys.optional_section(
        {"spans", "Trains to find the answers of questions in texts, in rows; null: there are no questions."},
        data.spans, [&](SpansRecipe& spans) { describe_spans(keys, spans); });
    keys.optional_section({"images", "Trains on images, whose folders are their classes; null: data are texts."},
                          data.images, [&](ImagesRecipe& images) { describe_images(keys, images); });
    keys.section({"curriculum", "In which order training goes from easy to hard."},
                 [&] { describe_curriculum(keys, data.curriculum); });
    keys.list({"train", "Sources of training data."}, data.train,
              [&](DataSource& source) { describe_source(keys, source); });
    keys.list({"validation", "Sources of validation data, or sets of it that each have a name and a loss."},
              data.validation, [&](DataSource& source) {
                describe_source(keys, source);
                keys.nullable_text(
                    {"name", "Makes it a set with a loss of its own; null: it is one of several sources."}, source.name,
                    {TextKind::name});
              });
    keys.boolean(
        {"shuffle", "Shuffles training samples in an order determined by the seed; otherwise they are read in order."},
        data.shuffle);
    keys.choice({"on_bad_line",
                 "What becomes of a line that is no document or conversation: it ends the command, or is left out and "
                 "counted by its reason."},
                data.on_bad_line, on_bad_line_words);
  });
}

// Times the number of sizes it is far below 2^63.

}  // namespace llmtrain
