// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/data/data.h"

#include "apps/llmtrain/flags.h"
#include "core/base/error.h"
#include "core/recipe/enum_words.h"

namespace llmtrain::app {

TokenizerRecipe named_tokenizer(const std::string& name) {
  if (name == "bytes") return {};
  if (name.ends_with(".json")) return {TokenizerKind::huggingface, name};
  if (name.ends_with(".model")) return {TokenizerKind::sentencepiece, name};
  throw Error(ExitCode::bad_recipe, "--tokenizer: \"" + name +
                                        "\" is none of \"bytes\", a tokenizer.json and a .model file of SentencePiece");
}

void add_on_bad_line(CLI::App& command, std::string& word) {
  CLI::Option* option =
      command.add_option("--on-bad-line", word,
                         "What becomes of a line that is no document: it ends the command, or is skipped and counted");
  choose_from(option, words_of(on_bad_line_words))->capture_default_str();
}

OnBadLine policy_of(const std::string& word) { return value_of_word<OnBadLine>(on_bad_line_words, word).value(); }

void add_data(CLI::App& program, Action& action) {
  CLI::App* parent = program.add_subcommand("data", "Makes and describes files of training data");
  // 0 is allowed here, so that refuse_without_command() can list the commands.
  parent->require_subcommand(0, 1);
  parent->footer("Example:\n  llmtrain data tokenize books/*.txt --tokenizer tokenizer.json --output books");
  add_tokenize(*parent, action);
  add_train_tokenizer(*parent, action);
  add_inspect_data(*parent, action);
}

}  // namespace llmtrain::app
