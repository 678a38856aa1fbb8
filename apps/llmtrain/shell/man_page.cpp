// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/shell/man_page.h"

#include <algorithm>
#include <filesystem>
#include <sstream>

#include "apps/llmtrain/shell/command_table.h"
#include "apps/llmtrain/usage.h"
#include "core/base/file.h"

namespace llmtrain::app {
namespace {

using Names = std::vector<std::string>;

// Text as roff prints it unchanged: a hyphen that can be copied, and no dot or quote that begins a request.
std::string roff(const std::string& text) {
  std::string result;
  for (const char letter : text) {
    const bool begins_line = result.empty() || result.back() == '\n';
    if (begins_line && (letter == '.' || letter == '\'')) result += "\\&";
    if (letter == '\\') {
      result += "\\e";
    } else if (letter == '-') {
      result += "\\-";
    } else {
      result += letter;
    }
  }
  return result;
}

std::string joined(const CLI::App& program, const Names& names, const char* between) {
  std::string text = program.get_name();
  for (const std::string& name : names) text += between + name;
  return text;
}

void write_synopsis(std::string& page, const CLI::App& program, const CLI::App& command, const Names& names) {
  page += ".SH SYNOPSIS\n.B " + roff(joined(program, names, " ")) + "\n[OPTIONS]";
  for (const CLI::Option* option : positionals_of(command)) {
    const std::string name = option->get_name() + (option->get_items_expected_max() > 1 ? "..." : "");
    page += option->get_required() ? " " + name : " [" + name + "]";
  }
  if (!commands_of(command).empty()) page += " COMMAND";
  page += "\n";
}

void write_options(std::string& page, const CLI::App& command) {
  for (const CLI::Option* option : positionals_of(command))
    page += ".TP\n.I " + roff(option->get_name()) + "\n" + roff(option->get_description()) + "\n";
  for (const CLI::Option* option : command.get_options([](const CLI::Option* each) { return each->nonpositional(); })) {
    std::string names;
    for (const std::string& name : option->get_snames()) names += "-" + name + ", ";
    for (const std::string& name : option->get_lnames()) names += "--" + name + ", ";
    page += ".TP\n.B " + roff(names.substr(0, names.size() - 2));
    if (option->get_items_expected_max() > 0) page += " \\fI" + roff(option->get_type_name()) + "\\fR";
    page += "\n" + roff(option->get_description());
    const std::string standard = option->get_default_str();
    page += (standard.empty() ? "" : " (default: " + roff(standard) + ")") + "\n";
  }
}

void write_commands(std::string& page, const CLI::App& program, const CLI::App& command, const Names& names) {
  if (commands_of(command).empty()) return;
  page += ".SH COMMANDS\n";
  for (const CLI::App* child : commands_of(command)) {
    Names below = names;
    below.push_back(child->get_name());
    page += ".TP\n.BR " + roff(joined(program, below, "-")) + " (1)\n" + roff(child->get_description()) + "\n";
  }
}

// The footer's lines that are indented are commands; what is not says how to read the help.
void write_examples(std::string& page, const CLI::App& command) {
  std::istringstream lines(command.get_footer());
  page += ".SH EXAMPLES\n.nf\n";
  for (std::string line; std::getline(lines, line);)
    if (line.starts_with("  ")) page += roff(line.substr(2)) + "\n";
  page += ".fi\n";
}

std::string page_of(const CLI::App& program, const CLI::App& command, const Names& names) {
  std::string title = joined(program, names, "-");
  std::string upper = title;
  std::ranges::transform(upper, upper.begin(), [](char c) { return c >= 'a' && c <= 'z' ? char(c - 'a' + 'A') : c; });
  std::string page = ".TH " + roff(upper) + " 1 \"\" \"llmtrain " LLMTRAIN_VERSION "\" \"llmtrain\"\n";
  page += ".SH NAME\n" + roff(title) + " \\- " + roff(command.get_description()) + "\n";
  write_synopsis(page, program, command, names);
  page += ".SH OPTIONS\n";
  write_options(page, command);
  write_commands(page, program, command, names);
  write_examples(page, command);
  page += ".SH SEE ALSO\n";
  if (!names.empty()) page += ".BR " + roff(program.get_name()) + " (1),\n";
  page +=
      roff(
          "docs/command-line.md: exit codes, environment and what a run writes; docs/recipe.md: all keys of a recipe") +
      "\n";
  return page;
}

void write_pages(const CLI::App& program, const CLI::App& command, const Names& names, const std::string& folder) {
  const auto file = std::filesystem::path(folder) / (joined(program, names, "-") + ".1");
  write_file_atomically(file, page_of(program, command, names));
  for (const CLI::App* child : commands_of(command)) {
    Names below = names;
    below.push_back(child->get_name());
    write_pages(program, *child, below, folder);
  }
}

}  // namespace

std::string man_page(const CLI::App& program, const std::vector<std::string>& names) {
  const CLI::App* command = &program;
  for (const std::string& name : names) {
    const CLI::App* next = command_named(*command, name);
    if (next == nullptr) refuse_unknown_command(program, *command, name);
    command = next;
  }
  return page_of(program, *command, names);
}

void write_man_pages(const CLI::App& program, const std::string& folder) { write_pages(program, program, {}, folder); }

}  // namespace llmtrain::app
