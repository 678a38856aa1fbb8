// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/key_table.h"

namespace llmtrain {

void describe_spans(KeyVisitor& keys, SpansRecipe& spans) {
  keys.nullable_text({"question", "Key of the question, or a JSON pointer; null: question."}, spans.question, {});
  keys.nullable_text({"context", "Key of the text that may answer it, or a JSON pointer; null: context."},
                     spans.context, {});
  keys.nullable_text(
      {"answers",
       "Key of the answers, {\"text\": [...], \"answer_start\": [...]} as SQuAD has them, or a JSON pointer; null: "
       "answers."},
      spans.answers, {});
  keys.boolean({"unanswerable",
                "Whether questions may have no answer, which the first token of a sample stands for; else rows without "
                "one are bad lines."},
               spans.unanswerable);
  keys.integer({"question_length", "Tokens that are kept of a question."}, spans.question_length, {1, 1 << 30});
  keys.integer({"overlap",
                "Tokens that a window of a text shares with the one before: what is longer than a sample is read in "
                "several."},
               spans.overlap, {0, 1 << 30});
  keys.integer({"answer_length", "Tokens of the longest answer that evaluation tells."}, spans.answer_length,
               {1, 1 << 30});
}

}  // namespace llmtrain
