// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/hints.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdlib>
#include <limits>
#include <utility>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/keys/key_table.h"
#include "core/recipe/synonyms.h"

namespace llmtrain {
namespace {

constexpr std::size_t none = std::numeric_limits<std::size_t>::max();
// Longer texts are no misspelt names, and comparing them takes time that grows with the square of their length.
constexpr std::size_t longest_name = 40;

std::string lower(std::string_view text) {
  std::string result(text);
  // ASCII only, whatever the locale.
  for (char& c : result) c = c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c;
  return result;
}

// Counts insertions, deletions, replacements and swaps of neighbours (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::size_t> before(b.size() + 1);
  std::vector<std::size_t> above(b.size() + 1);
  std::vector<std::size_t> row(b.size() + 1);
  for (std::size_t j = 0; j <= b.size(); ++j) above[j] = j;
  for (std::size_t i = 1; i <= a.size(); ++i) {
    row[0] = i;
    for (std::size_t j = 1; j <= b.size(); ++j) {
      row[j] = std::min({above[j] + 1, row[j - 1] + 1, above[j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1)});
      const bool swapped = i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1];
      if (swapped) row[j] = std::min(row[j], before[j - 2] + 1);
    }
    // Three rows of the matrix suffice: a swap of neighbours looks two rows back.
    std::swap(before, above);
    std::swap(above, row);
  }
  return above[b.size()];
}

// The distance where it is small relative to the word's length, else `none`.
std::size_t nearness(std::string_view written, std::string_view word) {
  // A third of the word, at most three edits: more would connect unrelated words.
  const auto allowed = std::min<std::size_t>(3, std::max<std::size_t>(1, written.size() / 3));
  // The distance is at least the difference in length, which costs nothing to compare.
  const auto difference = std::max(written.size(), word.size()) - std::min(written.size(), word.size());
  if (written.size() > longest_name || difference > allowed) return none;
  const auto distance = edit_distance(lower(written), lower(word));
  // A two-letter word is one edit away from too many words.
  return distance == 0 || (distance <= allowed && written.size() > 2) ? distance : none;
}

std::string_view name_of(std::string_view pointer) { return pointer.substr(pointer.rfind('/') + 1); }
std::string_view section_of(std::string_view pointer) { return pointer.substr(0, pointer.rfind('/')); }

// Entries of a list have the same keys, so the first entry represents all.
std::string with_first_entries(const std::string& pointer) {
  std::string result;
  for (const auto& key : split_pointer(pointer)) {
    const bool is_index = !key.empty() && key.find_first_not_of("0123456789") == std::string::npos;
    result = append_key(result, is_index ? "0" : key);
  }
  return result;
}

// The shortest text that begins with the name, ignoring case, or empty. Texts are words or pointers, whose last keys
// count.
std::string_view begun_among(std::span<const std::string_view> texts, std::string_view name) {
  // Two letters begin too many words.
  if (name.size() < 3) return "";
  std::string_view best;
  for (const auto text : texts) {
    const bool is_begun = lower(name_of(text)).starts_with(lower(name));
    if (is_begun && (best.empty() || name_of(text).size() < name_of(best).size())) best = text;
  }
  return best;
}

// The nearest text within `at_most` edits, the first one on a tie, or empty. Texts are words or pointers, whose last
// keys count.
std::string_view nearest_among(std::span<const std::string_view> texts, std::string_view name, std::size_t at_most) {
  std::string_view best;
  std::size_t best_distance = at_most + 1;
  for (const auto text : texts) {
    const auto distance = nearness(name, name_of(text));
    if (distance < best_distance) {
      best = text;
      best_distance = distance;
    }
  }
  return best;
}

}  // namespace

std::string_view nearest_word(std::string_view written, std::span<const std::string_view> words) {
  const std::string name = lower(written);
  for (const auto& [meant, others] : value_synonyms())
    if (std::ranges::find(others, name) != others.end() && std::ranges::find(words, meant) != words.end()) return meant;
  // "h100" is the start of "h100-sxm-80gb", though "h200" is one edit away.
  if (const auto begun = begun_among(words, written); !begun.empty()) return begun;
  return nearest_among(words, written, none - 1);
}

std::string nearest_key(const std::string& pointer) {
  static const std::vector<std::string> pointers = key_pointers();
  const std::vector<std::string_view> everywhere(pointers.begin(), pointers.end());
  const auto written = with_first_entries(pointer);
  const auto name = name_of(written);
  auto here = everywhere;
  std::erase_if(here, [&](std::string_view key) { return section_of(key) != section_of(written); });
  // In falling order of likelihood: a typing error in this section, another program's name, the name of a key
  // elsewhere, the start of a name in this section, a typing error of a key elsewhere.
  if (const auto near = nearest_among(here, name, none - 1); !near.empty()) return std::string(near);
  for (const auto& [meant, words] : key_synonyms())
    for (const auto word : words)
      if (word == lower(word.starts_with('/') ? written : name)) return std::string(meant);
  if (const auto same = nearest_among(everywhere, name, 0); !same.empty()) return std::string(same);
  if (const auto begun = begun_among(here, name); !begun.empty()) return std::string(begun);
  // Among all keys a short name is near to many by chance.
  return name.size() < 6 ? "" : std::string(nearest_among(everywhere, name, 1));
}

bool has_keys(const std::string& pointer) {
  const auto pointers = key_pointers();
  return std::ranges::any_of(pointers, [&](const std::string& key) { return section_of(key) == pointer; });
}

std::string value_meant(const std::string& pointer, const Json& value) {
  if (!value.is_string() && !value.is_number()) return "";
  const std::string written = with_first_entries(pointer);
  if (value.is_string()) {
    const std::string text = lower(value.get_ref<const std::string&>());
    if (written == "/precision/compute" && text.starts_with("fp8")) return "/precision/fp8_level";
    const bool is_tokenizer = written == "/data/tokenizer";
    if (is_tokenizer && text.ends_with(".json")) return "{\"huggingface\": " + shown_value(value) + "}";
    if (written == "/data/fine_tuning/template" && text.ends_with(".jinja"))
      return "{\"file\": " + shown_value(value) + "}";
    if (is_tokenizer && text.ends_with(".model")) return "{\"sentencepiece\": " + shown_value(value) + "}";
  }
  for (const std::string_view sources : {"/data/train", "/data/validation"}) {
    const std::string source = "{\"path\": " + shown_value(value) + "}";
    if (value.is_string() && written == sources) return "[" + source + "]";
    if (value.is_string() && section_of(written) == sources) return source;
  }
  struct Meant {
    std::string_view section, key;
    bool is_word;
  };
  static constexpr std::array<Meant, 7> meanings = {{{"/training/learning_rate", "peak", false},
                                                     {"/batch", "global", false},
                                                     {"/checkpoint", "every", false},
                                                     {"/model/moe", "experts", false},
                                                     {"/precision", "compute", true},
                                                     {"/training/optimizer", "name", true},
                                                     {"/pipeline", "schedule", true}}};
  for (const auto& [section, key, is_word] : meanings)
    if (written == section && value.is_string() == is_word) return append_key(pointer, key);
  return "";
}

std::int64_t nearest_multiple(std::int64_t value, std::int64_t divisor) {
  return std::max<std::int64_t>(1, (value + divisor / 2) / divisor) * divisor;
}

// Divisors come in pairs around the root.
std::int64_t nearest_divisor(std::int64_t value, std::int64_t whole) {
  std::int64_t nearest = 1;
  for (std::int64_t small = 1; small * small <= whole; ++small) {
    if (whole % small != 0) continue;
    for (const auto divisor : {small, whole / small}) {
      const auto farther = std::abs(divisor - value) - std::abs(nearest - value);
      // Ties go to the lower one, as documented.
      if (farther < 0 || (farther == 0 && divisor < nearest)) nearest = divisor;
    }
  }
  return nearest;
}

}  // namespace llmtrain
