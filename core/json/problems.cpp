// SPDX-License-Identifier: Apache-2.0
#include "core/json/problems.h"

#include <algorithm>
#include <cstddef>
#include <utility>

namespace llmtrain {
namespace {

// A file that is not a recipe at all would otherwise fill the screen, and take long to sort.
constexpr std::size_t most_problems = 1000;

std::string_view section_of(std::string_view pointer) { return pointer.substr(0, pointer.rfind('/')); }

std::string shown_pointer(const std::string& pointer) {
  if (pointer.empty()) return "/";
  std::string shown;
  for (const auto& key : split_pointer(pointer)) shown = append_key(shown, shown_text(key));
  return shown;
}

// Only the key where it belongs to the same section, else its whole pointer.
std::string shown_key(const std::string& meant, const std::string& written) {
  const bool same_section = section_of(meant) == section_of(written);
  return same_section ? '"' + meant.substr(meant.rfind('/') + 1) + '"' : meant;
}

}  // namespace

void Problems::add(const std::string& pointer, const std::string& what, const std::string& rule,
                   const std::string& hint) {
  if (problems_.size() == most_problems) return;
  problems_.push_back(
      {pointer, what + "; " + rule + (hint.empty() ? "" : "; did you mean " + hint + "?"), Kind::wrong});
}

void Problems::add_missing(const std::string& pointer, const std::string& rule) {
  if (problems_.size() == most_problems) return;
  problems_.push_back({pointer, "is missing; " + rule, Kind::missing});
}

void Problems::add_unknown(const std::string& pointer, const std::string& meant) {
  add(pointer, "is not a recipe key", "llmtrain schema lists all keys", meant.empty() ? "" : shown_key(meant, pointer));
  // The key that was probably meant is missing, but only because it was misspelt: reporting both would repeat the
  // mistake.
  if (!meant.empty() && !document_.holds(meant) && meant_.size() < most_problems) meant_.push_back(meant);
}

// Problems of misspelt keys count as well: what depends on the key that was meant would be reported wrongly.
bool Problems::is_clean(std::string_view pointer) const {
  const auto touches = [&](const std::string& other) { return lies_in(pointer, other) || lies_in(other, pointer); };
  return std::none_of(problems_.begin(), problems_.end(), [&](const Problem& p) { return touches(p.pointer); }) &&
         std::none_of(meant_.begin(), meant_.end(), touches);
}

bool Problems::is_reported(const Problem& problem) const {
  return problem.kind != Kind::missing || std::none_of(meant_.begin(), meant_.end(), [&](const std::string& meant) {
           return lies_in(meant, problem.pointer);
         });
}

std::string Problems::report(const std::string& file) const {
  std::vector<std::pair<std::vector<std::size_t>, const Problem*>> reported;
  for (const auto& problem : problems_) {
    if (is_reported(problem)) reported.emplace_back(document_.place_of(problem.pointer), &problem);
  }
  // In the order of the document; problems at one place stay in the order in which they were found.
  std::stable_sort(reported.begin(), reported.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::string lines;
  for (const auto& [place, problem] : reported) {
    const auto& source = document_.is_override(problem->pointer) ? "--set" : file;
    lines += (lines.empty() ? "" : "\n") + source + (source.empty() ? "" : ": ") + shown_pointer(problem->pointer) +
             ": " + problem->text;
  }
  if (problems_.size() == most_problems) lines += "\n" + file + ": further problems are not shown";
  return lines;
}

}  // namespace llmtrain
