// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/chat_templates.h"

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <ctime>
#include <filesystem>
#include <utility>

#include "core/base/date.h"
#include "core/base/error.h"
#include "core/recipe/model_from/model_files.h"
#include "core/tokenizer/document_marks.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// https://huggingface.co/Qwen/Qwen2-0.5B-Instruct, without its default system prompt.
constexpr const char* chatml_source =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' %}"
    "{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}"
    "{% else %}{{ message.content }}<|im_end|>{% endif %}{{ '\\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\\n' }}{% endif %}";

// https://huggingface.co/meta-llama/Meta-Llama-3-8B-Instruct
constexpr const char* llama3_source =
    "{% for message in messages %}{% if loop.first %}<|begin_of_text|>{% endif %}"
    "<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n"
    "{% if message.role == 'assistant' %}"
    "{% generation %}{{ message.content | trim }}<|eot_id|>{% endgeneration %}"
    "{% else %}{{ message.content | trim }}<|eot_id|>{% endif %}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|start_header_id|>assistant<|end_header_id|>\\n\\n' }}{% endif %}";

fs::path file_of(const ChatTemplateRecipe& chosen, const TokenizerRecipe& tokenizer) {
  if (chosen.kind == ChatTemplate::file) return chosen.file;
  if (tokenizer.kind == TokenizerKind::bytes)
    throw Error(ExitCode::bad_data, "bytes have no chat template; choose data.fine_tuning.template");
  if (const auto found = chat_template_in(fs::path(tokenizer.file).parent_path())) return *found;
  throw Error(ExitCode::bad_data, tokenizer.file +
                                      ": has no chat template beside it, neither a chat_template.jinja nor one in a "
                                      "tokenizer_config.json; choose data.fine_tuning.template");
}

Json special_tokens(const TokenizerRecipe& tokenizer, const fs::path& file) {
  std::map<std::string, std::string> tokens;
  if (tokenizer.kind != TokenizerKind::bytes)
    tokens = read_model_marks(fs::path(tokenizer.file).parent_path()).special_tokens;
  if (tokens.empty()) tokens = read_model_marks(file.parent_path()).special_tokens;
  return tokens;
}

std::optional<std::tm> time_of(const std::optional<std::string>& date) {
  const auto day = date ? date_of(*date) : std::nullopt;
  if (!day) return std::nullopt;
  const std::time_t seconds = std::chrono::system_clock::to_time_t(std::chrono::sys_days(*day));
  std::tm time{};
  gmtime_r(&seconds, &time);
  return time;
}

}  // namespace

ChatTemplates::ChatTemplates(const FineTuningRecipe& recipe, const TokenizerRecipe& tokenizer) {
  if (tokenizer.kind == TokenizerKind::huggingface && splits_special_tokens(tokenizer.file))
    throw Error(ExitCode::bad_data,
                config_beside(tokenizer.file).string() +
                    ": \"split_special_tokens\" is true, with which the marks of chat templates are "
                    "text; set it to false to train on conversations");
  Json tokens = Json::object();
  switch (recipe.chat_template.kind) {
    case ChatTemplate::chatml:
      name_ = "chatml";
      sources_ = {{"default", chatml_source}};
      break;
    case ChatTemplate::llama3:
      name_ = "llama3";
      sources_ = {{"default", llama3_source}};
      break;
    case ChatTemplate::automatic:
    case ChatTemplate::file: {
      const fs::path file = file_of(recipe.chat_template, tokenizer);
      name_ = file.string();
      sources_ = read_chat_templates(file);
      tokens = special_tokens(tokenizer, file);
      break;
    }
  }
  for (const auto& [name, source] : sources_) {
    // Others are for uses that conversations in files do not have.
    if (name != "default" && name != "tool_use") continue;
    try {
      writers_.emplace(name, MessageWriter(source, tokens, time_of(recipe.date)));
    } catch (const jinja::TemplateError& error) {
      throw Error(ExitCode::bad_data, fmt::format("{}: is no chat template: {}", name_, error.what()));
    }
  }
  if (!writers_.contains("default"))
    throw Error(ExitCode::bad_data, name_ + ": has several chat templates, of which none is named \"default\"");
}

const MessageWriter& ChatTemplates::writer_for(const Json& variables) const {
  const auto with_tools = writers_.find("tool_use");
  return variables.contains("tools") && with_tools != writers_.end() ? with_tools->second : writers_.at("default");
}

std::optional<std::string> ChatTemplates::end_of_answer() const {
  const std::string answer = "Yes.";
  const Json asked = {{"messages", Json::array({{{"role", "user"}, {"content", "No?"}},
                                                {{"role", "assistant"}, {"content", answer}}})}};
  try {
    std::string counted;
    for (const LabelledText& part : writer_for(asked).write(asked, {true, true}))
      if (part.counts) counted += part.text;
    const auto place = counted.rfind(answer);
    return place == std::string::npos ? std::nullopt : std::optional(counted.substr(place + answer.size()));
  } catch (const jinja::TemplateError&) {
    return std::nullopt;
  }
}

}  // namespace llmtrain
