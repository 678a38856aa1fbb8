// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/flag_hints.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <string_view>

#include "core/recipe/hints.h"

namespace llmtrain::app {
namespace {

std::string meant_text(const std::string& text) { return "; did you mean " + text + "?"; }

// "--batch-size" and "--training.steps" as the pointers "/batch_size" and "/training/steps".
std::string pointer_of(std::string name) {
  std::ranges::replace(name, '-', '_');
  std::ranges::replace(name, '.', '/');
  return "/" + name;
}

// The flag of the command that stands for a key, which its help names in brackets as "(launch.ranks)"; or null.
const CLI::Option* flag_of_key(const CLI::App& command, const std::string& key) {
  for (const CLI::Option* option : command.get_options())
    if (option->get_description().find("(" + key + ")") != std::string::npos) return option;
  return nullptr;
}

std::string key_hint(const CLI::App& command, const std::string& name, const std::string& given) {
  std::string key = nearest_key(pointer_of(name));
  // A whole section is no value of a flag.
  if (key.empty() || has_keys(key)) return "";
  key.erase(0, 1);
  std::ranges::replace(key, '/', '.');
  const std::string value = given.empty() ? "VALUE" : given;
  if (const CLI::Option* flag = flag_of_key(command, key)) return meant_text(flag->get_name() + " " + value);
  return command.get_option_no_throw("--set") == nullptr ? "" : meant_text("--set " + key + "=" + value);
}

std::string flag_hint(const CLI::App& command, const std::string& flag, const std::string& next) {
  const std::size_t equals = flag.find('=');
  const std::size_t dashes = flag.starts_with("--") ? 2 : 1;
  const std::string name = flag.substr(dashes, equals == std::string::npos ? equals : equals - dashes);
  const std::string value = equals == std::string::npos ? next : flag.substr(equals + 1);
  std::vector<std::string_view> known;
  for (const CLI::Option* option : command.get_options())
    for (const std::string& each : option->get_lnames()) known.push_back(each);
  if (const auto near = nearest_word(name, known); !near.empty()) return meant_text("--" + std::string(near));
  constexpr std::array<std::string_view, 4> recipe_words = {"config", "config-file", "recipe", "file"};
  if (std::ranges::find(recipe_words, name) != recipe_words.end())
    return "; a recipe's file is given by itself, without a flag";
  return key_hint(command, name, value);
}

// The value that a flag was given, or empty. Where the command has room for it, it counts as another argument.
std::string value_after(const std::string& flag, const std::vector<std::string>& arguments) {
  const auto found = std::ranges::find(arguments, flag);
  const bool has_value = found != arguments.end() && found + 1 != arguments.end() && !found[1].starts_with('-');
  return has_value ? found[1] : "";
}

}  // namespace

std::string hint_for(const CLI::App& command, const std::vector<std::string>& unknown,
                     const std::vector<std::string>& arguments) {
  if (unknown.empty()) return "";
  const std::string& first = unknown.front();
  if (first.size() > 1 && first.starts_with('-')) return flag_hint(command, first, value_after(first, arguments));
  const CLI::Option* set = command.get_option_no_throw("--set");
  if (set == nullptr) return "";
  for (const std::string& setting : set->results())
    if (setting.find('=') == std::string::npos) return meant_text("--set " + setting + "=" + first);
  if (first.find('=') != std::string::npos) return meant_text("--set " + first);
  return "";
}

}  // namespace llmtrain::app
