// SPDX-License-Identifier: Apache-2.0
#include "core/data/message_writer.h"

#include <spdlog/fmt/fmt.h>

#include <utility>

#include "core/jinja/values/text.h"

namespace llmtrain {
namespace {

// https://huggingface.co/Qwen/Qwen2-0.5B-Instruct, without its default system prompt.
constexpr std::string_view chatml_source =
    "{% for message in messages %}<|im_start|>{{ message.role }}\n"
    "{% if message.role == 'assistant' %}"
    "{% generation %}{{ message.content }}<|im_end|>{% endgeneration %}"
    "{% else %}{{ message.content }}<|im_end|>{% endif %}{{ '\\n' }}{% endfor %}";

// https://huggingface.co/meta-llama/Meta-Llama-3-8B-Instruct
constexpr std::string_view llama3_source =
    "{% for message in messages %}{% if loop.first %}<|begin_of_text|>{% endif %}"
    "<|start_header_id|>{{ message.role }}<|end_header_id|>\n\n"
    "{% if message.role == 'assistant' %}"
    "{% generation %}{{ message.content | trim }}<|eot_id|>{% endgeneration %}"
    "{% else %}{{ message.content | trim }}<|eot_id|>{% endif %}{% endfor %}";

std::vector<std::size_t> places_of_answers(const Json& messages) {
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < messages.size(); ++place)
    if (messages[place].value("role", "") == "assistant") places.push_back(place);
  return places;
}

[[noreturn]] void refuse(const std::string& reason) { throw jinja::TemplateError(1, reason); }

}  // namespace

MessageWriter::MessageWriter(std::string_view source, Json variables)
    : variables_(std::move(variables)), template_(source) {}

const MessageWriter& MessageWriter::named(ChatTemplate chat) {
  static const MessageWriter chatml(chatml_source, Json::object()), llama3(llama3_source, Json::object());
  switch (chat) {
    case ChatTemplate::chatml:
      return chatml;
    case ChatTemplate::llama3:
      return llama3;
  }
  return chatml;
}

jinja::Rendered MessageWriter::render(const Json& conversation, std::size_t messages, bool with_prompt) const {
  Json variables = {{"tools", nullptr}, {"documents", nullptr}};
  variables.update(variables_);
  variables.update(conversation);
  Json& written = variables["messages"];
  written.erase(written.begin() + static_cast<std::ptrdiff_t>(messages), written.end());
  variables["add_generation_prompt"] = with_prompt;
  return template_.render(variables);
}

std::vector<MessageWriter::Span> MessageWriter::spans_of_answers(const Json& conversation,
                                                                 const std::vector<std::size_t>& answers,
                                                                 const std::string& whole) const {
  std::vector<Span> spans;
  for (const std::size_t place : answers) {
    const std::string prompt = render(conversation, place, true).text;
    const std::string through = render(conversation, place + 1, false).text;
    if (!whole.starts_with(prompt) || !whole.starts_with(through) || through.size() < prompt.size())
      refuse(
          fmt::format("it writes message {} otherwise once others follow it, so that where the answer begins and "
                      "ends is not known: mark answers by {{% generation %}} and {{% endgeneration %}}",
                      place + 1));
    const std::string_view answer = std::string_view(through).substr(prompt.size());
    spans.emplace_back(prompt.size(), prompt.size() + jinja::stripped(answer, std::nullopt, false, true).size());
  }
  return spans;
}

std::vector<LabelledText> MessageWriter::write(const Json& conversation, std::size_t first_counted) const {
  const Json& messages = conversation["messages"];
  const auto rendered = render(conversation, messages.size(), false);
  const auto answers = places_of_answers(messages);
  if (rendered.has_lost_generation) refuse("it has {% generation %} within a macro or a set block");
  const auto spans =
      rendered.generations.empty() ? spans_of_answers(conversation, answers, rendered.text) : rendered.generations;
  if (first_counted > 0 && spans.size() != answers.size())
    refuse(fmt::format("it marks {} parts as generated of {} answers, so that those of the prompt are not known",
                       spans.size(), answers.size()));
  std::vector<LabelledText> parts;
  std::size_t begin = 0;
  const auto add = [&](std::size_t end, bool counts) {
    if (end > begin) parts.push_back({rendered.text.substr(begin, end - begin), counts});
    begin = std::max(begin, end);
  };
  for (std::size_t index = 0; index < spans.size(); ++index) {
    add(spans[index].first, false);
    add(spans[index].second, first_counted == 0 || answers[index] >= first_counted);
  }
  add(rendered.text.size(), false);
  return parts;
}

}  // namespace llmtrain
