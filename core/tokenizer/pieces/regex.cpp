// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/pieces/regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <array>
#include <new>
#include <stdexcept>

#include "core/base/error.h"
#include "core/tokenizer/pieces/regex_translation.h"

namespace llmtrain {
namespace {

// A long run of spaces needs some kilobytes of stack per thousand; PCRE2's own 32 KiB would be too few.
constexpr std::size_t first_stack_bytes = 64 << 10;
constexpr std::size_t largest_stack_bytes = 16 << 20;

std::string message_of(int error) {
  std::array<PCRE2_UCHAR, 200> text{};
  pcre2_get_error_message(error, text.data(), text.size());
  return reinterpret_cast<const char*>(text.data());
}

template <class Type>
Type* required(Type* pointer) {
  if (pointer == nullptr) throw std::bad_alloc();
  return pointer;
}

PCRE2_SPTR units_of(std::string_view text) { return reinterpret_cast<PCRE2_SPTR>(text.data()); }

}  // namespace

Regex::Regex(std::string_view pattern) {
  const std::string translated = translate_regex(pattern);
  // Oniguruma's default syntax: ^ and $ match at lines.
  constexpr std::uint32_t options = PCRE2_UTF | PCRE2_UCP | PCRE2_MULTILINE | PCRE2_NO_UTF_CHECK;
  int error = 0;
  PCRE2_SIZE where = 0;
  const std::shared_ptr<pcre2_compile_context_8> context(required(pcre2_compile_context_create(nullptr)),
                                                         pcre2_compile_context_free);
  pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
  pcre2_code* code = pcre2_compile(units_of(translated), translated.size(), options, &error, &where, context.get());
  if (code == nullptr) throw std::invalid_argument(message_of(error));
  code_.reset(code, pcre2_code_free);
  // Some systems forbid memory that can be written and executed; matching is slower there.
  compiled_to_machine_code_ = pcre2_jit_compile(code, PCRE2_JIT_COMPLETE) == 0;
}

RegexMatcher::RegexMatcher(const Regex& regex)
    : regex_(regex),
      data_(required(pcre2_match_data_create_from_pattern(regex.code_.get(), nullptr)), pcre2_match_data_free),
      context_(required(pcre2_match_context_create(nullptr)), pcre2_match_context_free) {
  if (!regex.compiled_to_machine_code_) return;
  stack_.reset(required(pcre2_jit_stack_create(first_stack_bytes, largest_stack_bytes, nullptr)), pcre2_jit_stack_free);
  pcre2_jit_stack_assign(context_.get(), nullptr, stack_.get());
}

std::optional<RegexMatcher::Match> RegexMatcher::find_any(std::string_view text, std::size_t from) {
  const auto match = regex_.compiled_to_machine_code_ ? pcre2_jit_match : pcre2_match;
  const int result =
      match(regex_.code_.get(), units_of(text), text.size(), from, PCRE2_NO_UTF_CHECK, data_.get(), context_.get());
  if (result == PCRE2_ERROR_NOMATCH) return std::nullopt;
  if (result < 0)
    throw Error(ExitCode::bad_data, "the pattern of a tokenizer cannot be matched with a text: " + message_of(result));
  const PCRE2_SIZE* bounds = pcre2_get_ovector_pointer(data_.get());
  return Match{bounds[0], bounds[1]};
}

std::size_t RegexMatcher::after_character(std::string_view text, std::size_t place) {
  ++place;
  while (place < text.size() && (static_cast<unsigned char>(text[place]) & 0xC0) == 0x80) ++place;
  return place;
}

std::optional<RegexMatcher::Match> RegexMatcher::find(std::string_view text, std::size_t from) {
  while (from <= text.size()) {
    const auto match = find_any(text, from);
    if (!match || match->end > match->begin) return match;
    from = after_character(text, match->end);
  }
  return std::nullopt;
}

}  // namespace llmtrain
