// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/data/data.h"

#include "core/base/error.h"

namespace llmtrain::app {

TokenizerRecipe named_tokenizer(const std::string& name) {
  if (name == "bytes") return {};
  if (name.ends_with(".json")) return {TokenizerKind::huggingface, name};
  if (name.ends_with(".model")) return {TokenizerKind::sentencepiece, name};
  throw Error(ExitCode::bad_recipe, "--tokenizer: \"" + name +
                                        "\" is none of \"bytes\", a tokenizer.json and a .model file of SentencePiece");
}

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
