// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ctime>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/jinja/template.h"

namespace llmtrain {

// A part of a document for fine-tuning. Parts are tokenized one by one: a model that answers continues the tokens of
// the prompt, so the prompt's last token must not depend on the answer.
struct LabelledText {
  std::string text;
  bool counts = false;  // whether the losses of predicting its tokens count

  bool operator==(const LabelledText&) const = default;
};

// Writes conversations out by a chat template, as transformers' apply_chat_template does, and says which parts are the
// assistant's. A conversation is {"messages": […], "tools": …, …}. Immutable, for any number of threads.
class MessageWriter {
 public:
  // `variables`: what the template is given besides the conversation, such as bos_token. `now` is what it is told where
  // it asks for the date; without it, it is refused then. Throws jinja::TemplateError.
  MessageWriter(std::string_view source, Json variables, std::optional<std::tm> now = std::nullopt);

  // The text of a conversation, cut where answers begin and end. An answer counts, through the token that ends it,
  // where `counted` has true at the place of its message. Answers are what the template marks by {% generation %}, or
  // else what a message of the role "assistant" adds to the text of those before it, up to its last character that is
  // not white space. Throws jinja::TemplateError where the template refuses the conversation or the answers are not
  // found so.
  std::vector<LabelledText> write(const Json& conversation, const std::vector<bool>& counted) const;

  // The text as a whole, and with `with_prompt` the beginning of an answer behind it. Throws jinja::TemplateError.
  std::string text(const Json& conversation, bool with_prompt = false) const;

  // jinja::Template's.
  bool mentions(std::string_view word) const { return template_.mentions(word); }

 private:
  // Bytes [first, second) of a text.
  using Span = std::pair<std::size_t, std::size_t>;

  jinja::Rendered render(const Json& conversation, std::size_t messages, bool with_prompt) const;
  std::vector<Span> spans_of_answers(const Json& conversation, const std::vector<std::size_t>& answers,
                                     const std::string& whole) const;

  Json variables_;
  jinja::Template template_;
  jinja::RenderOptions options_;
};

}  // namespace llmtrain
