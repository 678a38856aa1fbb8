// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/checkpoint/checkpoint_exchange.h"

#include <CLI/CLI.hpp>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include "apps/llmtrain/checkpoint/checkpoint_source.h"
#include "apps/llmtrain/checkpoint/huggingface_import.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/runtime.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/checkpoint/checkpoint.h"
#include "core/data/conversations/text_ends.h"
#include "core/json/json_text.h"
#include "core/recipe/checkpoint_source.h"
#include "core/recipe/enum_words.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "core/recipe/model_from/model_files.h"
#include "core/recipe/recipe_io.h"
#include "core/tokenizer/copy_tokenizer.h"
#include "core/tokenizer/model_marks.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain::app {
namespace {

namespace fs = std::filesystem;

struct ExchangeOptions {
  std::string source;
  std::string destination;
  std::string format;
  std::optional<std::string> dtype;
  std::optional<std::uint64_t> shard_bytes;
};

void require_new_folder(const std::string& destination) {
  std::error_code failed;
  const auto status = fs::status(destination, failed);
  // An empty folder may have been made for this; anything else could be overwritten by mistake.
  const bool free = !fs::exists(status) || (fs::is_directory(status) && fs::is_empty(destination, failed));
  if (destination.empty() || !free) {
    throw Error(ExitCode::cannot_write,
                "\"" + destination + "\": exists already and is not an empty folder; name a new one");
  }
}

constexpr const char* automatic_dtype = "auto";

std::vector<std::string> dtype_names() {
  std::vector<std::string> names = words_of(data_type_words);
  names.insert(names.begin(), automatic_dtype);
  return names;
}

// The checkpoint's tokenizer. Null, with a warning, where it is not supported but lies in the folder from which the
// model came: that of the export is then the same.
std::shared_ptr<const Tokenizer> tokenizer_of(const CheckpointSource& source, const fs::path& origin) {
  const TokenizerRecipe& tokenizer = source.recipe.data.tokenizer;
  try {
    return open_tokenizer(tokenizer, source.recipe.model.vocab_size);
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_data || fs::path(tokenizer.file).parent_path() != origin) throw;
    log().warn("the tokenizer is copied as it is: {}", error.what());
    return nullptr;
  }
}

int export_to(const ExchangeOptions& options) {
  const ExportFormat format = options.format == "peft" ? ExportFormat::peft : ExportFormat::huggingface;
  // Before the checkpoint and LibTorch are loaded, which takes longer.
  if (format == ExportFormat::peft && (options.dtype || options.shard_bytes))
    throw Error(ExitCode::bad_recipe, std::string(options.dtype ? "--dtype" : "--max-shard-size") +
                                          ": adapters are written as they are, in one file; it goes with --to hf");
  require_new_folder(options.destination);
  const CheckpointSource source = open_source(options.source, {});
  require_executable(source.recipe, source.checkpoint().string());
  // Before the model is written: a folder without its tokenizer would be half an export.
  const TokenizerRecipe& tokenizer = source.recipe.data.tokenizer;
  const fs::path origin = origin_of_model(source.recipe, source.checkpoint());
  const auto opened = tokenizer_of(source, origin);
  load_runtime().export_model(
      {source.recipe, source.checkpoint().string(), options.destination, format,
       value_of_word<DataType>(data_type_words, options.dtype.value_or(automatic_dtype)),
       static_cast<std::int64_t>(options.shard_bytes.value_or(default_file_bytes)), origin.string(),
       opened ? text_ends(source.recipe, source.checkpoint(), *opened) : std::vector<std::int64_t>{},
       opened ? padding_of_tokenizer(tokenizer, *opened) : std::nullopt});
  // An adapter's tokenizer is its model's.
  if (format != ExportFormat::peft) {
    copy_tokenizer(tokenizer, options.destination);
    write_chat_templates(source.recipe.data, options.destination);
  }
  write_result(options.destination + ": written from " + source.checkpoint().string() + "\n");
  return 0;
}

int import_from(const ExchangeOptions& options) {
  require_new_folder(options.destination);
  const std::string folder = huggingface_folder(options.source).value_or(options.source);
  import_huggingface(folder, options.destination);
  for (const std::string& note : huggingface_training_notes(folder)) log().warn("{}", note);
  write_result(options.destination + ": imported from " + folder + "\n");
  return 0;
}

}  // namespace

void add_export(CLI::App& parent, Action& action) {
  const auto options = std::make_shared<ExchangeOptions>();
  CLI::App* command = parent.add_subcommand("export", "Exports a model for other programs");
  command->add_option("SOURCE", options->source, "A run's directory (its newest checkpoint) or a checkpoint's folder")
      ->required()
      ->type_name("");
  command->add_option("DIRECTORY", options->destination, "A new folder")->required()->type_name("");
  CLI::Option* to =
      command->add_option("--to", options->format,
                          "hf: for transformers' from_pretrained, adapters merged; peft: adapters alone, for PEFT");
  choose_from(to, {"hf", "peft"})->required();
  CLI::Option* type = command->add_option(
      "--dtype", options->dtype, "With hf: type of all weights; auto: the checkpoint's, or fp32 if it has several");
  choose_from(type, dtype_names())->default_str(automatic_dtype);
  command
      ->add_option("--max-shard-size", options->shard_bytes,
                   "With hf: most bytes of weights in a file, also as 500MB or 5GB")
      ->type_name("SIZE")
      ->default_str(std::to_string(default_file_bytes))
      ->transform(CLI::AsSizeValue(true).description(""))
      ->check(CLI::PositiveNumber.description(""));
  command->footer("Example:\n  llmtrain checkpoint export runs/quickstart my-model --to hf");
  command->callback([options, &action] { action = [options] { return export_to(*options); }; });
}

void add_import(CLI::App& parent, Action& action) {
  const auto options = std::make_shared<ExchangeOptions>();
  CLI::App* command = parent.add_subcommand("import", "Makes a checkpoint from another program's model");
  command->add_option("SOURCE", options->source, "A folder that transformers' save_pretrained wrote")
      ->required()
      ->type_name("");
  command->add_option("DIRECTORY", options->destination, "A new folder, the checkpoint's")->required()->type_name("");
  choose_from(command->add_option("--from", options->format, "hf: transformers"), {"hf"})->required();
  command->footer("Example:\n  llmtrain checkpoint import my-model my-checkpoint --from hf");
  command->callback([options, &action] { action = [options] { return import_from(*options); }; });
}

}  // namespace llmtrain::app
