// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

// PCRE2's types, whose header would define macros.
struct pcre2_real_code_8;
struct pcre2_real_match_context_8;
struct pcre2_real_match_data_8;
struct pcre2_real_jit_stack_8;

namespace llmtrain {

// A pattern of a tokenizer's file, translated (regex_translation.h) and compiled. Immutable; threads share it.
class Regex {
 public:
  // Throws std::invalid_argument with the reason where the pattern is wrong or not supported.
  explicit Regex(std::string_view pattern);

 private:
  friend class RegexMatcher;
  std::shared_ptr<pcre2_real_code_8> code_;
  bool compiled_to_machine_code_ = false;
};

// Finds matches: one object per thread, because a match needs memory. The pattern outlives it.
class RegexMatcher {
 public:
  explicit RegexMatcher(const Regex& regex);

  struct Match {
    std::size_t begin;
    std::size_t end;  // after begin: empty matches are passed over
  };
  // The first match at or after byte `from` of `text`, which is valid UTF-8. Throws std::runtime_error where PCRE2
  // gives up.
  std::optional<Match> find(std::string_view text, std::size_t from);

  // Calls `match` with all matches from left to right, also empty ones, but for those at the end of the one before: as
  // the `tokenizers` package finds them for Split and Replace.
  template <class Function>
  void find_all(std::string_view text, const Function& match) {
    std::size_t from = 0;
    std::optional<std::size_t> last;
    while (from <= text.size()) {
      const auto found = find_any(text, from);
      if (!found) return;
      if (found->begin == found->end && last == found->end) {
        from = after_character(text, from);
        continue;
      }
      from = found->end;
      last = from;
      match(*found);
    }
  }

 private:
  std::optional<Match> find_any(std::string_view text, std::size_t from);
  static std::size_t after_character(std::string_view text, std::size_t place);

  const Regex& regex_;
  std::shared_ptr<pcre2_real_match_data_8> data_;
  std::shared_ptr<pcre2_real_jit_stack_8> stack_;
  std::shared_ptr<pcre2_real_match_context_8> context_;
};

}  // namespace llmtrain
