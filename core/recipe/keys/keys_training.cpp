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
  keys.choice({"name", "Optimizer; adamw uses decoupled weight decay, like PyTorch's AdamW."}, optimizer.name,
              optimizer_words);
  keys.number({"beta1", "Decay rate of the first moment."}, optimizer.beta1, {0, 1, RangeEnds::open_maximum});
  keys.number({"beta2", "Decay rate of the second moment."}, optimizer.beta2, {0, 1, RangeEnds::open_maximum});
  keys.number({"eps", "Epsilon added to the square root of the second moment."}, optimizer.eps, {0, 1});
  keys.number({"weight_decay",
               "Weight decay of weight matrices and embeddings; not applied to biases, norms and learned positions."},
              optimizer.weight_decay, {0, 1000});
}

void describe_learning_rate(KeyVisitor& keys, LearningRateRecipe& rate, std::int64_t steps) {
  keys.choice({"schedule", "Curve after warm-up; wsd: constant, then linear decay over the last fifth."}, rate.schedule,
              schedule_words);
  keys.number({"peak", "Maximum learning rate."}, rate.peak, {0, 1000});
  keys.number({"minimum", "Learning rate from decay_steps on."}, rate.minimum, {0, 1000});
  keys.integer({"warmup_steps", "Steps over which the learning rate rises linearly to its peak."}, rate.warmup_steps,
               interval_range);
  keys.integer({"decay_steps", "Step at which the schedule reaches its minimum.", "training.steps"},
               keys.otherwise(rate.decay_steps, steps), interval_range);
}

}  // namespace

void describe_training(KeyVisitor& keys, TrainingRecipe& training) {
  keys.section({"training", "How the model is trained."}, [&] {
    keys.integer({"steps", "Optimizer steps in the whole run.", "", Presence::required}, training.steps,
                 {1, most_steps});
    keys.nullable_text({"init_from",
                        "Source of the initial weights: null (random), a checkpoint's folder, or \"hf:\" and a Hugging "
                        "Face model's folder."},
                       training.init_from, {TextKind::checkpoint_source});
    keys.integer({"evaluate_every", "Steps between evaluations; 0: never."}, training.evaluate_every, interval_range);
    keys.integer({"evaluate_batches", "Global batches per evaluation; 0: all validation data."},
                 training.evaluate_batches, interval_range);
    keys.number({"clip_norm", "Gradient clipping: maximum global norm; 0: off."}, training.clip_norm, {0, 1e9});
    keys.section({"optimizer", "The optimizer."}, [&] { describe_optimizer(keys, training.optimizer); });
    keys.section({"learning_rate", "Learning rate schedule."},
                 [&] { describe_learning_rate(keys, training.learning_rate, training.steps); });
  });
}

}  // namespace llmtrain
