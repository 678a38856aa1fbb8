// SPDX-License-Identifier: Apache-2.0
// Renders templates for tests in Python. A line of the standard input is {"template": TEXT} or {"context": OBJECT}, of
// which the second kind is rendered by the template before it; "now" beside a context are seconds of the local time.
// The line written for a context is {"text": …, "generations": [[first, behind], …], "lost": …}, in characters, or
// {"error": REASON, "line": NUMBER}; a template that is refused is refused again for each context.
#include <ctime>
#include <iostream>
#include <memory>
#include <string>

#include "core/jinja/template.h"
#include "core/jinja/values/text.h"

namespace {

using llmtrain::Json;
namespace jinja = llmtrain::jinja;

Json error_of(const jinja::TemplateError& error) { return {{"error", error.reason()}, {"line", error.line()}}; }

Json render(const jinja::Template& source, const Json& request) {
  jinja::RenderOptions options;
  if (request.contains("now")) {
    const std::time_t now = request["now"].get<std::int64_t>();
    options.now = std::tm{};
    localtime_r(&now, &*options.now);
  }
  if (request.contains("steps")) options.steps = request["steps"].get<std::size_t>();
  try {
    const auto rendered = source.render(request["context"], options);
    Json spans = Json::array();
    const std::string_view text = rendered.text;
    for (const auto& [begin, end] : rendered.generations)
      spans.push_back({jinja::character_count(text.substr(0, begin)), jinja::character_count(text.substr(0, end))});
    return {{"text", rendered.text}, {"generations", spans}, {"lost", rendered.has_lost_generation}};
  } catch (const jinja::TemplateError& error) {
    return error_of(error);
  }
}

}  // namespace

int main() {
  std::unique_ptr<jinja::Template> source;
  Json refused;
  std::string line;
  while (std::getline(std::cin, line)) {
    const Json request = Json::parse(line);
    if (request.contains("context")) {
      std::cout << (source ? render(*source, request) : refused).dump() << "\n";
      continue;
    }
    source.reset();
    try {
      source = std::make_unique<jinja::Template>(request["template"].get<std::string>());
    } catch (const jinja::TemplateError& error) {
      refused = error_of(error);
    }
  }
}
