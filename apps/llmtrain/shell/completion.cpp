// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/shell/completion.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "apps/llmtrain/installation.h"
#include "apps/llmtrain/machine/profiles.h"
#include "apps/llmtrain/shell/command_table.h"
#include "apps/llmtrain/shell/key_completion.h"
#include "parallel/plan/profile/named_file.h"

namespace llmtrain::app {
namespace {

// Where the words before the last one lead.
struct Place {
  const CLI::App* command = nullptr;
  const CLI::Option* flag = nullptr;  // that takes the last word as its value
  std::size_t positionals = 0;        // given so far
};

Place place_after(const CLI::App& program, const std::vector<std::string>& words) {
  Place place{&program};
  for (std::size_t i = 0; i + 1 < words.size(); ++i) {
    const std::string& word = words[i];
    if (std::exchange(place.flag, nullptr) != nullptr) continue;
    if (word.starts_with('-')) {
      const CLI::Option* flag = flag_named(*place.command, word);
      place.flag = flag != nullptr && flag->get_items_expected_max() > 0 ? flag : nullptr;
    } else if (const CLI::App* next = command_named(*place.command, word)) {
      place = {next};
    } else {
      ++place.positionals;
    }
  }
  return place;
}

void add_words(Completions& completions, const std::vector<std::string>& words) {
  for (const std::string& word : words) completions.words.push_back({word, ""});
}

// "auto|never|PATH": words in small letters are values, others say of what kind a value is.
void add_values(Completions& completions, const CLI::Option& option) {
  for (const std::string& word : words_of_type(option)) {
    if (word == "FILE" || word == "PATH") completions.files = CompletedFiles::files;
    if (word == "DIR") completions.files = CompletedFiles::folders;
    if (word == "PROFILE") add_words(completions, names_in(profiles_folder()));
    if (word == "PROGRAM") add_words(completions, names_in(programs_folder()));
    if (word == "MODEL" || word == "RECIPE")
      for (const auto& file : bundled_recipe_files())
        if (word == "RECIPE" || file.parent_path() == "models") completions.words.push_back({file.stem().string(), ""});
    if (word == "RECIPE") completions.files = CompletedFiles::files;
    if (std::ranges::none_of(word, [](char c) { return c >= 'A' && c <= 'Z'; }) && word != "-")
      completions.words.push_back({word, ""});
  }
}

void add_flags(Completions& completions, const CLI::App& command) {
  for (const CLI::Option* option : command.get_options()) {
    // A short name saves no typing where names are completed.
    for (const std::string& name : option->get_lnames())
      completions.words.push_back({"--" + name, option->get_description()});
  }
}

void add_commands(Completions& completions, const CLI::App& command) {
  for (const CLI::App* child : commands_of(command))
    completions.words.push_back({child->get_name(), child->get_description()});
}

void add_positional(Completions& completions, const CLI::App& program, const Place& place) {
  const auto positionals = positionals_of(*place.command);
  if (positionals.empty()) return;
  const CLI::Option& last = *positionals.back();
  const bool repeats = last.get_items_expected_max() > 1;
  if (place.positionals >= positionals.size() && !repeats) return;
  const CLI::Option& option = *positionals[std::min(place.positionals, positionals.size() - 1)];
  // A positional argument's name says what it is; one beside a recipe, to be compared with it, is one, too.
  if (option.get_name() == "COMMAND") {
    add_commands(completions, program);
  } else if (!words_of_type(option).empty()) {
    add_values(completions, option);
  } else {
    completions.files = CompletedFiles::files;
    if (positionals.front()->get_name() == "RECIPE")
      for (const auto& file : bundled_recipe_files()) completions.words.push_back({file.stem().string(), ""});
  }
}

}  // namespace

Completions complete(const CLI::App& program, const std::vector<std::string>& words) {
  Completions completions;
  const std::string last = words.empty() ? "" : words.back();
  const Place place = place_after(program, words);
  if (place.flag != nullptr) {
    const std::string type = place.flag->get_type_name();
    if (type.starts_with("KEY=")) {
      completions = complete_setting(last);
    } else {
      add_values(completions, *place.flag);
    }
  } else if (last.starts_with('-')) {
    add_flags(completions, *place.command);
  } else {
    add_commands(completions, *place.command);
    add_positional(completions, program, place);
  }
  std::erase_if(completions.words, [&](const Completion& each) { return !each.text.starts_with(last); });
  return completions;
}

std::string completion_lines(const Completions& completions) {
  std::string lines;
  for (const Completion& word : completions.words) lines += word.text + "\t" + word.help + "\n";
  switch (completions.files) {
    case CompletedFiles::none:
      return lines;
    case CompletedFiles::files:
      return lines + ":files\n";
    case CompletedFiles::folders:
      return lines + ":folders\n";
  }
  return lines;
}

}  // namespace llmtrain::app
