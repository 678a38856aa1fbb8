// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/recipe/enum_words.h"
#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr IntegerRange interval_range{0, most_steps};

constexpr std::array<std::string_view, 2> optimizer_words = {"adamw", "muon"};
constexpr std::array<std::string_view, 2> muon_scale_words = {"match_rms_adamw", "original"};
constexpr std::array<std::string_view, 6> schedule_words = {"cosine", "linear",       "constant",
                                                            "wsd",    "inverse_sqrt", "cosine_restarts"};
constexpr std::array<std::string_view, 3> decay_shape_words = {"linear", "one_minus_sqrt", "cosine"};

constexpr std::array<std::string_view, 2> clock_words = {"steps", "tokens"};
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

void describe_length_schedule(KeyVisitor& keys, LengthScheduleRecipe& schedule) {
  keys.integer({"start", "Tokens of the first step; a multiple of \"multiple\".", "", Presence::required},
               schedule.start, {1, 1 << 24});
  keys.integer({"steps", "Step from which on it is the whole sequence.", "", Presence::required}, schedule.steps,
               {1, most_steps});
  keys.integer({"multiple", "The tokens are rounded down to multiples of it."}, schedule.multiple, {1, 1 << 24});
  keys.number({"degree", "The tokens grow with this root of the steps done: 1, evenly; 2, as their square root."},
              schedule.degree, {1, 100});
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

void describe_muon(KeyVisitor& keys, MuonRecipe& muon) {
  keys.number({"momentum", "Decay rate of the mean of gradients that is orthogonalised."}, muon.momentum,
              {0, 1, RangeEnds::open_maximum});
  keys.boolean({"nesterov", "Orthogonalises a mean in which the newest gradient counts once more."}, muon.nesterov);
  keys.integer({"steps", "Steps of the Newton-Schulz iteration that orthogonalises."}, muon.steps, {1, 99});
  keys.choice({"scale",
               "Size of an update: as large as AdamW's, so that its learning rates serve, or as in Muon's first "
               "publication."},
              muon.scale, muon_scale_words);
}

void describe_optimizer(KeyVisitor& keys, OptimizerRecipe& optimizer) {
  keys.choice({"name",
               "Optimizer; adamw uses decoupled weight decay, like PyTorch's AdamW. muon orthogonalises the updates of "
               "the layers' weight matrices, and leaves all other parameters to AdamW."},
              optimizer.name, optimizer_words);
  keys.number({"beta1", "Decay rate of the first moment."}, optimizer.beta1, {0, 1, RangeEnds::open_maximum});
  keys.number({"beta2", "Decay rate of the second moment."}, optimizer.beta2, {0, 1, RangeEnds::open_maximum});
  keys.number({"eps", "Epsilon added to the square root of the second moment."}, optimizer.eps, {0, 1});
  keys.number({"weight_decay",
               "Weight decay of weight matrices and embeddings; not applied to biases, norms and learned positions."},
              optimizer.weight_decay, {0, 1000});
  keys.section({"muon", "Muon's own settings."}, [&] { describe_muon(keys, optimizer.muon); });
}

void describe_token_dropping(KeyVisitor& keys, TokenDroppingRecipe& dropping) {
  describe_length_schedule(keys, dropping.schedule);
  keys.integer({"first_layers", "Layers at the start that see all tokens."}, dropping.first_layers, {0, 1 << 20});
  keys.integer({"last_layers", "Layers at the end that see all tokens."}, dropping.last_layers, {0, 1 << 20});
}

void describe_learning_rate(KeyVisitor& keys, LearningRateRecipe& rate, std::int64_t steps) {
  keys.choice(
      {"schedule",
       "Curve after warm-up; wsd: constant, then a decay at the end; inverse_sqrt: by the square root of the steps, "
       "without an end; cosine_restarts: several cosines."},
      rate.schedule, schedule_words);
  keys.choice({"clock",
               "What moves the schedule: steps, or the tokens trained on, in which a step of batch.global whole "
               "sequences counts as one."},
              rate.clock, clock_words);
  keys.number({"peak", "Maximum learning rate."}, rate.peak, {0, 1000});
  keys.number({"minimum", "Learning rate from decay_steps on."}, rate.minimum, {0, 1000});
  keys.integer({"warmup_steps", "Steps over which the learning rate rises linearly to its peak."}, rate.warmup_steps,
               interval_range);
  keys.integer({"decay_steps", "Step at which the schedule reaches its minimum.", "training.steps"},
               keys.otherwise(rate.decay_steps, steps), interval_range);
  keys.automatic_integer({"decay_length",
                          "With wsd: steps that the decay takes, up to decay_steps; auto: a fifth of decay_steps, "
                          "rounded down."},
                         rate.decay_length, {1, most_steps});
  keys.choice({"decay_shape", "With wsd: shape of the decay, with p from 0 to 1: 1 - p, 1 - √p, or half a cosine."},
              rate.decay_shape, decay_shape_words);
  keys.integer({"cycles", "With cosine_restarts: cosines between the warm-up and decay_steps, each from the peak."},
               rate.cycles, {1, 10'000});
}

void describe_early_stopping(KeyVisitor& keys, EarlyStoppingRecipe& stopping) {
  keys.integer({"evaluations", "So many evaluations in a row without progress end the run.", "", Presence::required},
               stopping.evaluations, {1, 1'000'000});
  keys.number({"improvement", "Progress is a loss that is lower by more than this than the best one before."},
              stopping.improvement, {0, 1e9});
}

void describe_generation(KeyVisitor& keys, GenerationRecipe& generation) {
  keys.integer(
      {"samples",
       "Pairs whose targets are written: the first of the validation data by which the run is judged, and no more "
       "than an evaluation reads."},
      generation.samples, {1, 1'000'000'000});
  keys.integer(
      {"beams", "Beginnings by which the most likely text is searched for; 1: the most likely token each time."},
      generation.beams, {1, 1024});
}

void describe_spikes(KeyVisitor& keys, SpikeRecipe& spikes) {
  keys.number({"loss", "Standard deviations above the mean of the window beyond which a loss is a spike; 0: never."},
              spikes.loss, {0, 1e9});
  keys.number({"gradient_norm", "The same of gradient norms, before clipping; 0: never."}, spikes.gradient_norm,
              {0, 1e9});
  keys.integer({"window", "Number of updates in the window. Before there have been so many, nothing is a spike."},
               spikes.window, {8, longest_spike_window});
}

// Which updates are made, and when.
void describe_updates(KeyVisitor& keys, TrainingRecipe& training) {
  keys.number({"clip_norm", "Gradient clipping: maximum global norm; 0: off."}, training.clip_norm, {0, 1e9});
  keys.section({"spikes", "Updates that are skipped because the loss or the gradient norm jumps."},
               [&] { describe_spikes(keys, training.spikes); });
  keys.boolean({"update_in_backward",
                "Update the weights of each stage (pipeline.loops) in the backward, as soon as their gradients are "
                "final, which then need no memory any more."},
               training.update_in_backward);
  keys.integer({"skip_limit",
                "Updates skipped in a row, for a gradient norm that is not finite or a spike, that end the run; 0: "
                "no limit.",
                "10; 1 with update_in_backward, which can skip none"},
               keys.otherwise(training.skip_limit, training.update_in_backward ? 1 : 10), interval_range);
  keys.integer({"rollbacks",
                "Times that a run, instead of ending so, returns to its newest checkpoint and goes on with the data "
                "that follows."},
               training.rollbacks, {0, 1'000'000});
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
constexpr std::int64_t most_growth_samples = std::int64_t{1} << 40;

void describe_batch(KeyVisitor& keys, BatchRecipe& batch, const ModelRecipe& model) {
  keys.section({"batch", "Batch sizes, in sequences."}, [&] {
    keys.integer({"global", "Sequences per optimizer step, over all ranks.", "", Presence::required}, batch.global,
                 {1, 1 << 24});
    keys.integer({"micro", "Micro-batch size: sequences that one rank processes at a time.", "", Presence::required},
                 batch.micro, {1, 1 << 20});
    keys.integer({"sequence_length", "Tokens per training sequence.", "model.max_sequence_length"},
                 keys.otherwise(batch.sequence_length, model.max_sequence_length), {1, 1 << 24});
    keys.optional_section(
        {"growth", "Begins with smaller global batches; null: all have batch.global sequences."}, batch.growth,
        [&](BatchGrowthRecipe& growth) {
          keys.integer({"start", "Sequences of the first steps.", "", Presence::required}, growth.start, {1, 1 << 24});
          keys.integer({"increment", "Sequences by which the batch grows at a time.", "", Presence::required},
                       growth.increment, {1, 1 << 24});
          keys.integer({"samples",
                        "Sequences over which it grows evenly, by the number that steps have "
                        "trained on; after them it has batch.global.",
                        "", Presence::required},
                       growth.samples, {1, most_growth_samples});
        });
  });
}

void describe_training(KeyVisitor& keys, TrainingRecipe& training) {
  keys.section({"training", "How the model is trained."}, [&] {
    keys.integer({"steps", "Optimizer steps in the whole run.", "", Presence::required_without_epochs}, training.steps,
                 {1, most_steps});
    keys.nullable_number({"epochs",
                          "In place of steps: how often the run reads each sample of data.train, the last step filled "
                          "with what follows; null: steps says how long the run is."},
                         training.epochs, {0, 1'000'000, RangeEnds::open_minimum});
    keys.nullable_text({"init_from",
                        "Source of the initial weights: null (random), a checkpoint's folder, a run's directory, or "
                        "\"hf:\" and a Hugging Face model's folder.",
                        "model.from, else null"},
                       training.init_from, {TextKind::checkpoint_source});
    keys.nullable_text({"adapters_from", "Source of model.lora's initial weights: null (random), or a folder of PEFT."},
                       training.adapters_from, {TextKind::path});
    keys.integer({"evaluate_every", "Steps between evaluations; 0: never."}, training.evaluate_every, interval_range);
    keys.integer({"evaluate_batches", "Global batches per evaluation; 0: all validation data."},
                 training.evaluate_batches, interval_range);
    keys.nullable_text({"judged_by",
                        "Name of the set in data.validation whose loss is the validation loss, by which the best "
                        "checkpoints are kept and early_stopping ends a run; null: the first."},
                       training.judged_by, {TextKind::name});
    keys.optional_section(
        {"early_stopping", "Ends a run whose validation loss falls no more; null: all steps are done."},
        training.early_stopping, [&](EarlyStoppingRecipe& stopping) { describe_early_stopping(keys, stopping); });
    keys.optional_section({"generation",
                           "Evaluations let an encoder-decoder write targets, which are compared with those of the "
                           "data: bleu and exact_match; null: they measure the loss alone."},
                          training.generation,
                          [&](GenerationRecipe& generation) { describe_generation(keys, generation); });
    keys.number({"label_smoothing",
                 "Share of each target that is spread over all tokens in training, not in evaluation; in encoders and "
                 "encoder-decoders."},
                training.label_smoothing, {0, 1, RangeEnds::open_maximum});
    describe_updates(keys, training);
    keys.texts(
        {"freeze", "Patterns of names of parameters that are not trained, with * for any text, as in layers.0.*."},
        training.freeze, "a list of patterns");
    keys.optional_section(
        {"token_dropping",
         "Layers between the first and the last train on random tokens of each sequence; null: on all."},
        training.token_dropping, [&](TokenDroppingRecipe& dropping) { describe_token_dropping(keys, dropping); });
    keys.section({"optimizer", "The optimizer."}, [&] { describe_optimizer(keys, training.optimizer); });
    keys.section({"learning_rate", "Learning rate schedule."},
                 [&] { describe_learning_rate(keys, training.learning_rate, training.steps); });
  });
}

}  // namespace llmtrain
