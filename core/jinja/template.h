// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <ctime>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/jinja/syntax/template_error.h"
#include "core/json/json_text.h"

namespace llmtrain::jinja {

struct RenderOptions {
  std::optional<std::tm> now;      // what strftime_now() writes; without it the function is refused
  std::size_t steps = 50'000'000;  // about as many expressions, statements and pieces of 64 bytes, then it is refused
};

struct Rendered {
  std::string text;
  // The parts of the text between {% generation %} and {% endgeneration %}, as its bytes [first, second).
  std::vector<std::pair<std::size_t, std::size_t>> generations;
  // Whether such a tag stood within a macro, a set block or the like, so that where its text went is not known.
  bool has_lost_generation = false;
};

// A template of Jinja in the environment that transformers' apply_chat_template makes: a sandbox in which nothing that
// it is given can be changed, with trim_blocks, lstrip_blocks, break, continue, {% generation %}, tojson as json.dumps,
// raise_exception() and strftime_now(). It has no loader: include, import, extends and block are refused. Integers have
// 64 bits. Immutable, for any number of threads.
class Template {
 public:
  // Throws TemplateError.
  explicit Template(std::string_view source);

  // Renders with the keys of an object as variables. Throws TemplateError with the line and the reason, for what the
  // template raises, too.
  Rendered render(const Json& variables, const RenderOptions& options = {}) const;

  // Whether the word is a name in the template (a variable, an attribute), or a text of its expressions as a whole.
  bool mentions(std::string_view word) const;

 private:
  struct Tree;
  std::shared_ptr<const Tree> tree_;
};

}  // namespace llmtrain::jinja
