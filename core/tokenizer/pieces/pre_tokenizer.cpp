// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/pieces/pre_tokenizer.h"

#include <array>
#include <map>
#include <utility>

#include "core/tokenizer/pieces/characters.h"
#include "core/tokenizer/pieces/scripts.h"
#include "core/tokenizer/pieces/split_pattern.h"

namespace llmtrain {
namespace {

using Step = PreTokenizer::Step;
using Prefix = PreTokenizer::Prefix;

// GPT-2's, which ByteLevel uses unless "use_regex" is false.
constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

SplitBehavior behavior_of(const JsonFields& section) {
  static const std::map<std::string, SplitBehavior> names = {
      {"Removed", SplitBehavior::removed},
      {"Isolated", SplitBehavior::isolated},
      {"MergedWithPrevious", SplitBehavior::merged_with_previous},
      {"MergedWithNext", SplitBehavior::merged_with_next},
      {"Contiguous", SplitBehavior::contiguous}};
  if (!section.has("behavior")) return SplitBehavior::isolated;
  const auto found = names.find(section.text("behavior"));
  if (found == names.end())
    section.section("behavior")
        .fail("is \"" + section.text("behavior") +
              "\"; it can be Removed, Isolated, MergedWithPrevious, MergedWithNext or Contiguous");
  return found->second;
}

// A text of one character.
char32_t character_of(const JsonFields& section, const char* key) {
  const std::string text = section.text(key);
  if (text.empty() || first_character(text).bytes != text.size()) section.section(key).fail("is not one character");
  return first_character(text).code;
}

// What a match of the pattern \w+|[^\w\s]+ is made of; white space is in none.
int class_of_words(char32_t code) {
  if (is_word_character(code)) return 0;
  return is_white_space(code) ? -1 : 1;
}

Prefix prefix_of(const JsonFields& section) {
  static const std::map<std::string, Prefix> names = {
      {"always", Prefix::always}, {"first", Prefix::first}, {"never", Prefix::never}};
  const std::string name = section.has("prepend_scheme") ? section.text("prepend_scheme") : "always";
  const auto found = names.find(name);
  if (found == names.end())
    section.section("prepend_scheme").fail("is \"" + name + "\"; it can be always, first or never");
  // Older files have this flag alone.
  if (!section.flag("add_prefix_space", true)) {
    if (section.has("prepend_scheme") && found->second != Prefix::never)
      section.section("prepend_scheme").fail("is \"" + name + "\" and \"add_prefix_space\" is false");
    return Prefix::never;
  }
  return found->second;
}

Step metaspace(const JsonFields& section) {
  Step step;
  const char32_t space = character_of(section, "replacement");
  step.replaces_spaces = section.text("replacement");
  step.prefix = prefix_of(section);
  step.prefix_text = step.replaces_spaces;
  step.behavior = SplitBehavior::merged_with_next;
  if (section.flag("split", true)) step.cut = PreTokenizer::DelimiterCut{space};
  return step;
}

Step split(const JsonFields& section) {
  return {.cut = split_pattern(section.section("pattern")),
          .is_inverted = section.flag("invert", false),
          .behavior = behavior_of(section)};
}

Step byte_level(const JsonFields& section) {
  Step step;
  if (section.flag("add_prefix_space", true)) step.prefix = Prefix::always;
  step.prefix_text = " ";
  if (section.flag("use_regex", true)) step.cut = Regex(gpt2_pattern);
  step.writes_bytes = true;
  return step;
}

Step fixed_length(const JsonFields& section) {
  const std::int64_t length = section.has("length") ? section.whole_number("length") : 5;
  if (length == 0) section.section("length").fail("is 0; a piece has one character or more");
  return {.cut = PreTokenizer::LengthCut{static_cast<std::size_t>(length)}};
}

Step at_characters(bool (*is_place)(char32_t), SplitBehavior behavior) {
  return {.cut = PreTokenizer::CharacterCut{is_place}, .behavior = behavior};
}

using Make = std::vector<Step> (*)(const JsonFields&);

const std::map<std::string, Make>& kinds() {
  static const std::map<std::string, Make> all = {
      {"BertPreTokenizer",
       [](const JsonFields&) {
         return std::vector<Step>{at_characters(is_white_space, SplitBehavior::removed),
                                  at_characters(is_punctuation, SplitBehavior::isolated)};
       }},
      {"ByteLevel", [](const JsonFields& section) { return std::vector<Step>{byte_level(section)}; }},
      {"CharDelimiterSplit",
       [](const JsonFields& section) {
         return std::vector<Step>{{.cut = PreTokenizer::DelimiterCut{character_of(section, "delimiter")},
                                   .behavior = SplitBehavior::removed}};
       }},
      {"Digits",
       [](const JsonFields& section) {
         const bool alone = section.flag("individual_digits", false);
         return std::vector<Step>{
             at_characters(is_number, alone ? SplitBehavior::isolated : SplitBehavior::contiguous)};
       }},
      {"FixedLength", [](const JsonFields& section) { return std::vector<Step>{fixed_length(section)}; }},
      {"Metaspace", [](const JsonFields& section) { return std::vector<Step>{metaspace(section)}; }},
      {"Punctuation",
       [](const JsonFields& section) {
         return std::vector<Step>{at_characters(is_punctuation, behavior_of(section))};
       }},
      {"Split", [](const JsonFields& section) { return std::vector<Step>{split(section)}; }},
      {"UnicodeScripts",
       [](const JsonFields&) {
         return std::vector<Step>{
             {.cut = PreTokenizer::ScriptCut{script_of}, .is_inverted = true, .behavior = SplitBehavior::removed}};
       }},
      {"Whitespace",
       [](const JsonFields&) {
         return std::vector<Step>{
             {.cut = PreTokenizer::ClassCut{class_of_words}, .is_inverted = true, .behavior = SplitBehavior::removed}};
       }},
      {"WhitespaceSplit",
       [](const JsonFields&) { return std::vector<Step>{at_characters(is_white_space, SplitBehavior::removed)}; }},
  };
  return all;
}

}  // namespace

PreTokenizer::PreTokenizer(const JsonFields& section) { add(section); }

void PreTokenizer::add_sequence(const JsonFields& section) {
  const JsonFields steps = section.section("pretokenizers");
  for (std::size_t i = 0; i < steps.size(); ++i) {
    if (steps.element(i).text("type") == "Sequence") steps.element(i).fail("a Sequence within one is not supported");
    add(steps.element(i));
  }
}

void PreTokenizer::add(const JsonFields& section) {
  const std::string kind = section.text("type");
  if (kind == "Sequence") return add_sequence(section);
  const auto found = kinds().find(kind);
  if (found == kinds().end()) {
    std::string supported = "Sequence";
    for (const auto& [name, make] : kinds()) supported += ", " + name;
    section.fail("\"" + kind + "\" is not supported; supported are " + supported);
  }
  for (Step& step : found->second(section)) steps_.push_back(std::move(step));
}

}  // namespace llmtrain
