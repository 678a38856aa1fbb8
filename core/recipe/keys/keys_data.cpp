// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/key_table.h"

namespace llmtrain {
namespace {

void describe_source(KeyVisitor& keys, DataSource& source) {
  keys.text({"path", "A text, .jsonl or .bin file, a folder, or a glob.", "", Presence::required}, source.path,
            {TextKind::path});
  keys.number({"weight", "Share of the samples drawn from this source, relative to the other weights."}, source.weight,
              {0, 1e9, RangeEnds::open_minimum});
}

}  // namespace

void describe_data(KeyVisitor& keys, DataRecipe& data) {
  keys.section({"data", "Data sets; needed to run and evaluate, not to validate or plan."}, [&] {
    keys.tokenizer({"tokenizer", "How text is turned into token ids: one id per byte, or a tokenizer file."},
                   data.tokenizer);
    keys.list({"train", "Sources of training data."}, data.train,
              [&](DataSource& source) { describe_source(keys, source); });
    keys.list({"validation", "Sources of validation data."}, data.validation,
              [&](DataSource& source) { describe_source(keys, source); });
    keys.boolean(
        {"shuffle", "Shuffles training samples in an order determined by the seed; otherwise they are read in order."},
        data.shuffle);
  });
}

void describe_batch(KeyVisitor& keys, BatchRecipe& batch, const ModelRecipe& model) {
  keys.section({"batch", "Batch sizes, in sequences."}, [&] {
    keys.integer({"global", "Sequences per optimizer step, over all ranks.", "", Presence::required}, batch.global,
                 {1, 1 << 24});
    keys.integer({"micro", "Micro-batch size: sequences that one rank processes at a time.", "", Presence::required},
                 batch.micro, {1, 1 << 20});
    keys.integer({"sequence_length", "Tokens per training sequence.", "model.max_sequence_length"},
                 keys.otherwise(batch.sequence_length, model.max_sequence_length), {1, 1 << 24});
  });
}

}  // namespace llmtrain
