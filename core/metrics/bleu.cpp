// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/bleu.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdlib>
#include <initializer_list>
#include <map>
#include <stdexcept>
#include <utility>

namespace llmtrain {
namespace {

using Words = std::vector<std::string>;
using Counts = std::map<Words, std::int64_t>;

bool is_digit(char c) { return c >= '0' && c <= '9'; }
bool is_point(char c) { return c == '.' || c == ','; }

// All of ASCII but letters, digits, control characters and "',-.".
bool is_mark(char c) {
  const auto within = [&](char first, char last) { return c >= first && c <= last; };
  return within('{', '~') || within('[', '`') || within(' ', '&') || within('(', '+') || within(':', '@') || c == '/';
}

std::string with_replaced(std::string_view text, std::string_view from, std::string_view to) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    const bool is_here = text.substr(at).starts_with(from);
    result += is_here ? to : text.substr(at, 1);
    at += is_here ? from.size() : 1;
  }
  return result;
}

// Bytes of white space at `at`, as Python's str.split() has it; 0: there is none.
std::size_t space_at(std::string_view text, std::size_t at) {
  const char c = text[at];
  if ((c >= '\t' && c <= '\r') || (c >= '\x1c' && c <= ' ')) return 1;
  static constexpr auto others = {"\u0085", "\u00A0", "\u1680", "\u2000", "\u2001", "\u2002", "\u2003",
                                  "\u2004", "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200A",
                                  "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"};
  for (const std::string_view other : others)
    if (text.substr(at).starts_with(other)) return other.size();
  return 0;
}

Words split(std::string_view text) {
  Words words(1);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = space_at(text, at);
    if (space == 0)
      words.back() += text[at];
    else if (!words.back().empty())
      words.emplace_back();
    at += std::max<std::size_t>(space, 1);
  }
  if (words.back().empty()) words.pop_back();
  return words;
}

std::string without_trailing_space(std::string_view text) {
  std::size_t end = 0;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t space = space_at(text, at);
    at += std::max<std::size_t>(space, 1);
    if (space == 0) end = at;
  }
  return std::string(text.substr(0, end));
}

// Rewrites pairs of neighbours, which do not overlap, from left to right. Bytes will do for characters: what `matches`
// looks for is ASCII, or anything else.
template <class Matches, class Write>
std::string rewrite_pairs(const std::string& text, const Matches& matches, const Write& write) {
  std::string result;
  for (std::size_t at = 0; at < text.size();) {
    if (at + 1 < text.size() && matches(text[at], text[at + 1])) {
      result += write(text[at], text[at + 1]);
      at += 2;
    } else {
      result += text[at++];
    }
  }
  return result;
}

std::string spaced(std::initializer_list<char> parts) { return {parts}; }

Counts sequences_of(const Words& words, std::size_t length) {
  Counts counts;
  for (std::size_t at = 0; at + length <= words.size(); ++at) {
    const auto begin = words.begin() + static_cast<std::ptrdiff_t>(at);
    ++counts[Words(begin, begin + static_cast<std::ptrdiff_t>(length))];
  }
  return counts;
}

}  // namespace

std::vector<std::string> words_13a(std::string_view text) {
  std::string line = without_trailing_space(text);
  line = with_replaced(line, "<skipped>", "");
  line = with_replaced(line, "-\n", "");
  line = with_replaced(line, "\n", " ");
  for (const auto& [from, to] :
       {std::pair{"&quot;", "\""}, std::pair{"&amp;", "&"}, std::pair{"&lt;", "<"}, std::pair{"&gt;", ">"}})
    line = with_replaced(line, from, to);
  std::string apart = " ";
  for (const char c : line) apart += is_mark(c) ? spaced({' ', c, ' '}) : std::string(1, c);
  apart += ' ';
  apart = rewrite_pairs(
      apart, [](char a, char b) { return !is_digit(a) && is_point(b); },
      [](char a, char b) {
        return spaced({a, ' ', b, ' '});
      });
  apart = rewrite_pairs(
      apart, [](char a, char b) { return is_point(a) && !is_digit(b); },
      [](char a, char b) {
        return spaced({' ', a, ' ', b});
      });
  apart = rewrite_pairs(
      apart, [](char a, char b) { return is_digit(a) && b == '-'; },
      [](char a, char b) {
        return spaced({a, ' ', b, ' '});
      });
  return split(apart);
}

void BleuCounts::add(std::string_view text, std::span<const std::string> references) {
  if (references.empty()) throw std::invalid_argument("BLEU compares with at least one reference");
  const Words words = words_13a(text);
  std::vector<Words> others;
  for (const std::string& reference : references) others.push_back(words_13a(reference));
  const auto distance = [&](const Words& other) { return std::abs(std::ssize(other) - std::ssize(words)); };
  const Words& closest = *std::ranges::min_element(others, [&](const Words& a, const Words& b) {
    return std::pair(distance(a), a.size()) < std::pair(distance(b), b.size());
  });
  length_ += std::ssize(words);
  reference_length_ += std::ssize(closest);
  for (std::size_t length = 1; length <= longest; ++length) {
    Counts most;
    for (const Words& other : others)
      for (const auto& [sequence, count] : sequences_of(other, length))
        most[sequence] = std::max(most[sequence], count);
    for (const auto& [sequence, count] : sequences_of(words, length)) {
      total_[length - 1] += count;
      if (const auto found = most.find(sequence); found != most.end())
        matched_[length - 1] += std::min(count, found->second);
    }
  }
}

std::vector<double> BleuCounts::numbers() const {
  std::vector<double> numbers{static_cast<double>(length_), static_cast<double>(reference_length_)};
  for (const auto& counts : {matched_, total_})
    for (const std::int64_t count : counts) numbers.push_back(static_cast<double>(count));
  return numbers;
}

void BleuCounts::add_numbers(std::span<const double> numbers) {
  if (numbers.size() != 2 + 2 * longest) throw std::logic_error("counts of BLEU have another number");
  const auto count = [&](std::size_t place) { return static_cast<std::int64_t>(numbers[place]); };
  length_ += count(0);
  reference_length_ += count(1);
  for (std::size_t i = 0; i < longest; ++i) {
    matched_[i] += count(2 + i);
    total_[i] += count(2 + longest + i);
  }
}

double BleuCounts::score() const {
  // The longest sequences match nothing but where all others do.
  if (matched_.front() == 0) return 0;
  double sum = 0, smoothing = 1;
  for (std::size_t i = 0; i < longest; ++i) {
    if (total_[i] == 0) return 0;  // the texts are too short for it
    double share = static_cast<double>(matched_[i]) / static_cast<double>(total_[i]);
    if (matched_[i] == 0) share = 1 / ((smoothing *= 2) * static_cast<double>(total_[i]));
    sum += std::log(share);
  }
  const double missing = static_cast<double>(reference_length_) / static_cast<double>(length_);
  return 100 * std::exp(sum / longest) * (missing > 1 ? std::exp(1 - missing) : 1);
}

}  // namespace llmtrain
