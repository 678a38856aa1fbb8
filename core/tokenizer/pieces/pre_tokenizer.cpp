// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/pieces/pre_tokenizer.h"

#include <cctype>
#include <stdexcept>

namespace llmtrain {
namespace {

// GPT-2's, which ByteLevel uses unless "use_regex" is false.
constexpr std::string_view gpt2_pattern =
    R"('s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)";

// What Digits takes for one: the package asks Rust here, which knows Unicode 17.
constexpr std::string_view numbers = R"([\p{N}\x{11de0}-\x{11de9}\x{16ff4}-\x{16ff6}])";

constexpr const char* supported =
    "supported are ByteLevel, and a Sequence of Split (behavior Isolated, or Removed with invert) and Digits that ends "
    "with ByteLevel; tokenizers made with SentencePiece are read from their .model file";

// A pattern that matches `text` itself.
std::string literal_pattern(std::string_view text) {
  std::string pattern;
  for (const char c : text) {
    if (std::ispunct(static_cast<unsigned char>(c)) != 0) pattern.push_back('\\');
    pattern.push_back(c);
  }
  return pattern;
}

Regex compiled(const JsonFields& section, std::string_view pattern) {
  try {
    return Regex(pattern);
  } catch (const std::invalid_argument& error) {
    section.fail("the pattern " + std::string(pattern) + " cannot be used: " + error.what());
  }
}

}  // namespace

PreTokenizer::PreTokenizer(const JsonFields& section) {
  add(section);
  const std::string kind = section.text("type");
  const auto byte_level = [](const JsonFields& step) { return step.text("type") == "ByteLevel"; };
  if (kind == "ByteLevel") return;
  if (kind != "Sequence") section.fail("\"" + kind + "\" alone is not supported; " + supported);
  const JsonFields steps = section.section("pretokenizers");
  for (std::size_t i = 0; i < steps.size(); ++i)
    // What follows would see visible characters instead of the text's bytes.
    if (byte_level(steps.element(i)) != (i + 1 == steps.size()))
      section.fail(std::string("ByteLevel is not last; ") + supported);
}

void PreTokenizer::add(const JsonFields& section) {
  const std::string kind = section.text("type");
  if (kind == "Sequence") {
    const JsonFields steps = section.section("pretokenizers");
    if (steps.size() == 0) steps.fail("is empty");
    for (std::size_t i = 0; i < steps.size(); ++i) {
      if (steps.element(i).text("type") == "Sequence") steps.element(i).fail("a Sequence within one is not supported");
      add(steps.element(i));
    }
  } else if (kind == "Split") {
    add_split(section);
  } else if (kind == "Digits") {
    const bool alone = section.flag("individual_digits", false);
    steps_.push_back({.regex = compiled(section, std::string(numbers) + (alone ? "" : "+"))});
  } else if (kind == "ByteLevel") {
    add_byte_level(section);
  } else {
    section.fail("\"" + kind + "\" is not supported; " + supported);
  }
}

void PreTokenizer::add_split(const JsonFields& section) {
  const std::string behavior = section.text("behavior");
  const bool inverted = section.flag("invert", false);
  // Inverted and removed: what does not match goes, which is another way to write a pattern that matches all.
  const bool only_matches = behavior == "Removed" && inverted;
  if (!only_matches && (behavior != "Isolated" || inverted))
    section.fail("Split with behavior \"" + behavior + "\"" + (inverted ? " and invert" : "") + " is not supported; " +
                 supported);
  const JsonFields pattern = section.section("pattern");
  const std::string regex = pattern.has("Regex") ? pattern.text("Regex") : literal_pattern(pattern.text("String"));
  steps_.push_back({.regex = compiled(pattern, regex), .keeps_rest = !only_matches});
}

void PreTokenizer::add_byte_level(const JsonFields& section) {
  Step step;
  step.begins_with_space = section.flag("add_prefix_space", true);
  if (section.flag("use_regex", true)) step.regex = Regex(gpt2_pattern);
  if (step.regex || step.begins_with_space) steps_.push_back(std::move(step));
}

WordSplitter::WordSplitter(const PreTokenizer& pre_tokenizer) : steps_(pre_tokenizer.steps()) {
  for (const PreTokenizer::Step& step : steps_) {
    matchers_.emplace_back();
    if (step.regex) matchers_.back().emplace(*step.regex);
  }
}

void WordSplitter::split(std::string_view text, std::size_t step, const Word& word) {
  if (step == steps_.size()) return word(text);
  if (!steps_[step].begins_with_space || text.starts_with(' ')) return split_by_matches(text, step, word);
  std::string with_space(1, ' ');
  with_space += text;
  split_by_matches(with_space, step, word);
}

void WordSplitter::split_by_matches(std::string_view text, std::size_t step, const Word& word) {
  if (!matchers_[step]) return split(text, step + 1, word);
  std::size_t done = 0;
  const auto rest_until = [&](std::size_t end) {
    if (end > done && steps_[step].keeps_rest) split(text.substr(done, end - done), step + 1, word);
  };
  while (const auto match = matchers_[step]->find(text, done)) {
    rest_until(match->begin);
    split(text.substr(match->begin, match->end - match->begin), step + 1, word);
    done = match->end;
  }
  rest_until(text.size());
}

}  // namespace llmtrain
