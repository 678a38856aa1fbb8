// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/pieces/word_splitter.h"

#include <algorithm>
#include <string>

#include "core/tokenizer/pieces/byte_level.h"
#include "core/tokenizer/pieces/characters.h"
#include "core/tokenizer/pieces/span_joiner.h"

namespace llmtrain {
namespace {

using Step = PreTokenizer::Step;

std::string with_spaces_replaced(std::string_view text, std::string_view replacement) {
  std::string result;
  result.reserve(text.size() + text.size() / 2);
  for (const char c : text) {
    if (c == ' ') {
      result += replacement;
    } else {
      result.push_back(c);
    }
  }
  return result;
}

// Finds the places of a step and calls `place(begin, end)` with each, from left to right.
struct Places {
  std::string_view text;
  RegexMatcher* matcher;
  std::function<void(std::size_t, std::size_t)> place;

  template <class Test>
  void by_character(const Test& test) const {
    std::size_t begin = 0;
    for_each_character(text, [&](const Character& next) {
      if (test(next.code)) place(begin, begin + next.bytes);
      begin += next.bytes;
    });
  }

  void operator()(const std::monostate&) const {}
  void operator()(const Regex&) const {
    matcher->find_all(text, [&](const RegexMatcher::Match& match) { place(match.begin, match.end); });
  }
  void operator()(const PreTokenizer::CharacterCut& cut) const { by_character(cut.is_place); }
  void operator()(const PreTokenizer::DelimiterCut& cut) const {
    std::string delimiter;
    append_character(cut.delimiter, delimiter);
    for (std::size_t begin = 0; (begin = text.find(delimiter, begin)) != std::string_view::npos;
         begin += delimiter.size())
      place(begin, begin + delimiter.size());
  }
  // Rows of one class: places, the others are between them.
  void operator()(const PreTokenizer::ClassCut& cut) const {
    std::size_t begin = 0, end = 0;
    int row = -1;
    const auto end_row = [&] {
      if (row >= 0) place(begin, end);
    };
    for_each_character(text, [&](const Character& next) {
      const int its = cut.class_of(next.code);
      if (its != row) {
        end_row();
        begin = end;
        row = its;
      }
      end += next.bytes;
    });
    end_row();
  }
  void operator()(const PreTokenizer::ScriptCut& cut) const {
    std::size_t begin = 0, end = 0;
    int script = -1;
    for_each_character(text, [&](const Character& next) {
      const int its = cut.script_of(next.code);
      if (its >= 0 && its != script) {
        if (script >= 0) place(begin, end);
        begin = end;
        script = its;
      }
      end += next.bytes;
    });
    if (script >= 0) place(begin, end);
  }
  void operator()(const PreTokenizer::LengthCut& cut) const {
    std::size_t begin = 0, end = 0, count = 0;
    for_each_character(text, [&](const Character& next) {
      end += next.bytes;
      if (++count % cut.characters != 0 && end < text.size()) return;
      place(begin, end);
      begin = end;
    });
  }
};

}  // namespace

WordSplitter::WordSplitter(const PreTokenizer& pre_tokenizer) : steps_(pre_tokenizer.steps()) {
  for (const Step& step : steps_) {
    matchers_.emplace_back();
    if (const auto* regex = std::get_if<Regex>(&step.cut)) matchers_.back().emplace(*regex);
  }
}

void WordSplitter::split(std::string_view text, bool is_first, std::size_t index, const Word& word) {
  if (index == steps_.size()) return word(text);
  const Step& step = steps_[index];
  const bool replaces = !step.replaces_spaces.empty() && text.find(' ') != std::string_view::npos;
  const bool may_prefix =
      step.prefix == PreTokenizer::Prefix::always || (step.prefix == PreTokenizer::Prefix::first && is_first);
  if (!replaces && (!may_prefix || text.starts_with(step.prefix_text))) return cut(text, is_first, index, word);
  std::string changed = replaces ? with_spaces_replaced(text, step.replaces_spaces) : std::string(text);
  if (may_prefix && !changed.starts_with(step.prefix_text)) changed.insert(0, step.prefix_text);
  cut(changed, is_first, index, word);
}

void WordSplitter::pass_on(std::string_view piece, bool is_first, std::size_t index, const Word& word) {
  if (piece.empty()) return;
  if (steps_[index].writes_bytes) {
    split(token_of_bytes(piece), is_first, index + 1, word);
  } else {
    split(piece, is_first, index + 1, word);
  }
}

void WordSplitter::cut(std::string_view text, bool is_first, std::size_t index, const Word& word) {
  const Step& step = steps_[index];
  if (std::holds_alternative<std::monostate>(step.cut)) return pass_on(text, is_first, index, word);
  SpanJoiner joiner(step.behavior);
  const auto piece = [&](std::size_t begin, std::size_t end) {
    pass_on(text.substr(begin, end - begin), is_first && begin == 0, index, word);
  };
  const auto span = [&](std::size_t begin, std::size_t end, bool is_place) {
    joiner.add({begin, end, is_place != step.is_inverted}, piece);
  };
  std::size_t done = 0;
  const auto place = [&](std::size_t begin, std::size_t end) {
    if (begin > done) span(done, begin, false);
    span(begin, end, true);
    done = end;
  };
  std::visit(Places{text, matchers_[index] ? &*matchers_[index] : nullptr, place}, step.cut);
  if (done < text.size()) span(done, text.size(), false);
  joiner.finish(piece);
}

}  // namespace llmtrain
