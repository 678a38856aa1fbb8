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

void describe_length_schedule(KeyVisitor& keys, LengthScheduleRecipe& schedule) {
  keys.integer({"start", "Tokens of the first step; a multiple of \"multiple\".", "", Presence::required},
               schedule.start, {1, 1 << 24});
  keys.integer({"steps", "Step from which on it is the whole sequence.", "", Presence::required}, schedule.steps,
               {1, most_steps});
  keys.integer({"multiple", "The tokens are rounded down to multiples of it."}, schedule.multiple, {1, 1 << 24});
  keys.number({"degree", "The tokens grow with this root of the steps done: 1, evenly; 2, as their square root."},
              schedule.degree, {1, 100});
}

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
