// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/help_format.h"

#include <sstream>
#include <string_view>
#include <vector>

#include "core/page/text_layout.h"

namespace llmtrain::app {
namespace {

// An example that is a line too long goes on in the next ones, as a shell takes it.
std::string example(std::string_view command, std::size_t width) {
  constexpr std::string_view first = "  ", next = "      ", joint = " \\";
  if (columns(command) <= width) return std::string(command) + '\n';
  std::string text;
  for (const std::string& line : wrapped(command, width - next.size() - joint.size()))
    text += (text.empty() ? std::string(first) : std::string(joint) + '\n' + std::string(next)) + line;
  return text + '\n';
}

}  // namespace

std::string HelpFormat::make_description(const CLI::App* command) const {
  return paragraph(command->get_description(), width_);
}

std::string HelpFormat::make_subcommand(const CLI::App* command) const {
  return described("  " + command->get_name(), command->get_description(), column_width_, width_);
}

std::string HelpFormat::make_option(const CLI::Option* option, bool is_positional) const {
  return described("  " + make_option_name(option, is_positional) + make_option_opts(option), make_option_desc(option),
                   column_width_, width_);
}

std::string HelpFormat::make_footer(const CLI::App* command) const {
  std::istringstream lines(command->get_footer());
  std::string text;
  for (std::string line; std::getline(lines, line);)
    text += line.starts_with("  ") ? example(line, width_) : line.empty() ? "\n" : paragraph(line, width_);
  return text;
}

}  // namespace llmtrain::app
