// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>

#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "apps/llmtrain/data/data.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/standard_streams.h"
#include "core/base/printable.h"
#include "core/base/units.h"
#include "core/token_files/describe_data.h"
#include "core/tokenizer/open_tokenizer.h"

namespace llmtrain::app {
namespace {

struct InspectOptions {
  std::string file;
  std::string tokenizer;
  std::int64_t tokens = 32;
  std::string on_bad_line = "stop";
  bool json = false;
};

std::string as_json(const InspectOptions& options, const DataDescription& data) {
  nlohmann::ordered_json json = {{"file", options.file}, {"format", data.format}, {"bytes", data.file_bytes}};
  const auto number = [&](const char* key, const std::optional<std::int64_t>& value) {
    if (value) json[key] = *value;
  };
  number("documents", data.documents);
  number("tokens", data.tokens);
  number("largest_id", data.largest_id);
  if (data.tokens) json["first_tokens"] = data.first_tokens;
  if (data.first_text) json["first_text"] = *data.first_text;
  if (data.bad_lines.policy() == OnBadLine::skip) json["bad_lines"] = data.bad_lines.json();
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

std::string as_text(const InspectOptions& options, const DataDescription& data) {
  std::string text = fmt::format("file        {}\nformat      {}\nsize        {}\n", options.file, data.format,
                                 format_bytes(data.file_bytes));
  if (data.documents) text += fmt::format("documents   {}\n", *data.documents);
  if (data.tokens) text += fmt::format("tokens      {}\n", *data.tokens);
  if (data.largest_id)
    text += fmt::format("largest id  {}, for model.vocab_size {} or more\n", *data.largest_id, *data.largest_id + 1);
  if (!data.first_tokens.empty()) text += fmt::format("begins with {}\n", fmt::join(data.first_tokens, " "));
  for (const std::string& sentence : data.bad_lines.sentences()) text += "skipped     " + sentence + "\n";
  if (data.first_text) text += "text        " + printable(*data.first_text) + "\n";
  return text;
}

int inspect_data(const InspectOptions& options) {
  const auto tokenizer = options.tokenizer.empty() ? nullptr : open_tokenizer(named_tokenizer(options.tokenizer));
  const DataDescription data =
      describe_data(options.file, tokenizer.get(), options.tokens, policy_of(options.on_bad_line));
  options.json ? write_json(as_json(options, data)) : write_result(as_text(options, data));
  return 0;
}

}  // namespace

void add_inspect_data(CLI::App& parent, Action& action) {
  const auto options = std::make_shared<InspectOptions>();
  CLI::App* command = parent.add_subcommand("inspect", "Shows what a data file holds");
  command->add_option("FILE", options->file, "A token file (.bin), text or JSON Lines")->required()->type_name("");
  command
      ->add_option("--tokenizer", options->tokenizer,
                   "Decodes tokens, and counts those of text: bytes, a tokenizer.json, or a .model file")
      ->type_name("FILE");
  command->add_option("--tokens", options->tokens, "How many tokens to show")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_not_negative());
  add_on_bad_line(*command, options->on_bad_line);
  command->add_flag("--json", options->json, "Print JSON");
  command->footer("Example:\n  llmtrain data inspect books.bin --tokenizer tokenizer.json");
  command->callback([options, &action] { action = [options] { return inspect_data(*options); }; });
}

}  // namespace llmtrain::app
