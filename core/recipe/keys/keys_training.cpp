// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

constexpr std::int64_t most_steps = 1'000'000'000'000;
constexpr IntegerRange interval_range{0, most_steps};

constexpr std::array<std::string_view, 1> optimizer_words = {"adamw"};
constexpr std::array<std::string_view, 4> schedule_words = {"cosine", "linear", "constant", "wsd"};

void describe_optimizer(KeyVisitor& keys, OptimizerRecipe& optimizer) {
  keys.choice({"name", "The optimizer; adamw decays weights apart from the gradient, as PyTorch's AdamW."},
              optimizer.name, optimizer_words);
  keys.number({"beta1", "Decay of the first moment."}, optimizer.beta1, {0, 1, RangeEnds::open_maximum});
  keys.number({"beta2", "Decay of the second moment."}, optimizer.beta2, {0, 1, RangeEnds::open_maximum});
  keys.number({"eps", "Added to the root of the second moment."}, optimizer.eps, {0, 1});
  keys.number({"weight_decay", "Decay of weight matrices and embeddings; not of biases, norms, learned positions."},
              optimizer.weight_decay, {0, 1000});
}

void describe_learning_rate(KeyVisitor& keys, LearningRateRecipe& rate, std::int64_t steps) {
  keys.choice({"schedule", "The curve after warm-up; wsd: stable, then a line down over the last fifth."},
              rate.schedule, schedule_words);
  keys.number({"peak", "The highest learning rate."}, rate.peak, {0, 1000});
  keys.number({"minimum", "The learning rate from decay_steps on."}, rate.minimum, {0, 1000});
  keys.integer({"warmup_steps", "Steps in which the learning rate rises to its peak."}, rate.warmup_steps,
               interval_range);
  keys.integer({"decay_steps", "The step at which the schedule reaches its minimum.", "training.steps"},
               keys.otherwise(rate.decay_steps, steps), interval_range);
}

}  // namespace

void describe_training(KeyVisitor& keys, TrainingRecipe& training) {
  keys.section({"training", "How the model is trained."}, [&] {
    keys.integer({"steps", "Optimizer steps of the whole run.", "", Presence::required}, training.steps,
                 {1, most_steps});
    keys.nullable_text({"init_from",
                        "Where the first weights come from: null (random), a checkpoint's folder, or "
                        "\"hf:\" and a Hugging Face model's folder."},
                       training.init_from, {TextKind::checkpoint_source});
    keys.integer({"evaluate_every", "Steps between evaluations; 0: never."}, training.evaluate_every, interval_range);
    keys.integer({"evaluate_batches", "Global batches of an evaluation; 0: the whole validation data."},
                 training.evaluate_batches, interval_range);
    keys.number({"clip_norm", "Gradients are scaled down to this global norm; 0: off."}, training.clip_norm, {0, 1e9});
    keys.section({"optimizer", "The optimizer."}, [&] { describe_optimizer(keys, training.optimizer); });
    keys.section({"learning_rate", "The learning rate's course."},
                 [&] { describe_learning_rate(keys, training.learning_rate, training.steps); });
  });
}

}  // namespace llmtrain
