// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

void describe_source(KeyVisitor& keys, DataSource& source) {
  keys.text({"path", "A text, .jsonl or .bin file, a folder, or a glob.", "", Presence::required}, source.path,
            {TextKind::path});
  keys.number({"weight", "Share of the samples that come from this source, relative to the other weights."},
              source.weight, {0, 1e9, RangeEnds::open_minimum});
}

}  // namespace

void describe_data(KeyVisitor& keys, DataRecipe& data) {
  keys.section({"data", "What is read; needed to run and to evaluate, not to validate or plan."}, [&] {
    keys.tokenizer({"tokenizer", "How text becomes token ids: one id a byte, or a tokenizer's file."}, data.tokenizer);
    keys.list({"train", "Sources of the training data."}, data.train,
              [&](DataSource& source) { describe_source(keys, source); });
    keys.list({"validation", "Sources of the validation data."}, data.validation,
              [&](DataSource& source) { describe_source(keys, source); });
    keys.boolean({"shuffle", "Training samples come in an order that the seed decides, else as they stand."},
                 data.shuffle);
  });
}

void describe_batch(KeyVisitor& keys, BatchRecipe& batch, const ModelRecipe& model) {
  keys.section({"batch", "Batch sizes, in sequences."}, [&] {
    keys.integer({"global", "Sequences of one optimizer step, over all ranks.", "", Presence::required}, batch.global,
                 {1, 1 << 24});
    keys.integer({"micro", "Sequences that one rank takes at once.", "", Presence::required}, batch.micro,
                 {1, 1 << 20});
    keys.integer({"sequence_length", "Tokens of a training sequence.", "model.max_sequence_length"},
                 keys.otherwise(batch.sequence_length, model.max_sequence_length), {1, 1 << 24});
  });
}

}  // namespace llmtrain
