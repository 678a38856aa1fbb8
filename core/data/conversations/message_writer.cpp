// SPDX-License-Identifier: Apache-2.0
#include "core/data/conversations/message_writer.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <utility>

#include "core/jinja/values/text.h"

namespace llmtrain {
namespace {

std::vector<std::size_t> places_of_answers(const Json& messages) {
  std::vector<std::size_t> places;
  for (std::size_t place = 0; place < messages.size(); ++place)
    if (messages[place].value("role", "") == "assistant") places.push_back(place);
  return places;
}

[[noreturn]] void refuse(const std::string& reason) { throw jinja::TemplateError(1, reason); }

}  // namespace

MessageWriter::MessageWriter(std::string_view source, Json variables, std::optional<std::tm> now)
    : variables_(std::move(variables)), template_(source), options_{.now = now} {}

jinja::Rendered MessageWriter::render(const Json& conversation, std::size_t messages, bool with_prompt) const {
  Json variables = {{"tools", nullptr}, {"documents", nullptr}};
  variables.update(variables_);
  variables.update(conversation);
  Json& written = variables["messages"];
  written.erase(written.begin() + static_cast<std::ptrdiff_t>(messages), written.end());
  variables["add_generation_prompt"] = with_prompt;
  return template_.render(variables, options_);
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

std::string MessageWriter::text(const Json& conversation, bool with_prompt) const {
  return render(conversation, conversation["messages"].size(), with_prompt).text;
}

std::vector<LabelledText> MessageWriter::write(const Json& conversation, const std::vector<bool>& counted) const {
  const Json& messages = conversation["messages"];
  const auto rendered = render(conversation, messages.size(), false);
  const auto answers = places_of_answers(messages);
  if (rendered.has_lost_generation) refuse("it has {% generation %} within a macro or a set block");
  const auto spans =
      rendered.generations.empty() ? spans_of_answers(conversation, answers, rendered.text) : rendered.generations;
  const bool all_count = std::ranges::all_of(answers, [&](std::size_t place) { return counted[place]; });
  if (!all_count && spans.size() != answers.size())
    refuse(fmt::format("it marks {} parts as generated of {} answers, so that those which do not count are not known",
                       spans.size(), answers.size()));
  std::vector<LabelledText> parts;
  std::size_t begin = 0;
  const auto add = [&](std::size_t end, bool counts) {
    if (end > begin) parts.push_back({rendered.text.substr(begin, end - begin), counts});
    begin = std::max(begin, end);
  };
  for (std::size_t index = 0; index < spans.size(); ++index) {
    add(spans[index].first, false);
    add(spans[index].second, all_count || counted[answers[index]]);
  }
  add(rendered.text.size(), false);
  return parts;
}

}  // namespace llmtrain
