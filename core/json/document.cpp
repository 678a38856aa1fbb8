// SPDX-License-Identifier: Apache-2.0
#include "core/json/document.h"

#include <algorithm>
#include <iterator>
#include <utility>

namespace llmtrain {
namespace {

// The index of `key` among the children of `value`, or their number.
std::size_t child_index(const Json& value, const std::string& key) {
  if (value.is_object()) return static_cast<std::size_t>(std::distance(value.begin(), value.find(key)));
  // Short enough for std::stoul on every platform.
  const bool is_index = !key.empty() && key.size() < 10 && key.find_first_not_of("0123456789") == std::string::npos;
  return value.is_array() && is_index ? std::min<std::size_t>(std::stoul(key), value.size()) : value.size();
}

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

std::vector<std::size_t> Document::place_of(std::string_view pointer) const {
  std::vector<std::size_t> place;
  const Json* value = &root;
  for (const auto& key : split_pointer(pointer)) {
    const auto index = place.emplace_back(child_index(*value, key));
    // A missing value ends the path: its index is one past its siblings.
    if (!value->is_structured() || index == value->size()) break;
    value = &*std::next(value->begin(), static_cast<std::ptrdiff_t>(index));
  }
  return place;
}

bool Document::holds(std::string_view pointer) const { return root.contains(Json::json_pointer(std::string(pointer))); }

bool Document::is_override(std::string_view pointer) const {
  return std::ranges::any_of(overridden, [&](const std::string& set) { return lies_in(pointer, set); });
}

bool lies_in(std::string_view pointer, std::string_view ancestor) {
  return pointer.starts_with(ancestor) && (pointer.size() == ancestor.size() || pointer[ancestor.size()] == '/');
}

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
  return std::ranges::none_of(problems_, touches, &Problem::pointer) && std::ranges::none_of(meant_, touches);
}

std::string Problems::report(const std::string& file) const {
  std::vector<std::pair<std::vector<std::size_t>, const Problem*>> reported;
  for (const auto& problem : problems_) {
    const auto holds_it = [&](const std::string& meant) { return lies_in(meant, problem.pointer); };
    const bool misspelt = problem.kind == Kind::missing && std::ranges::any_of(meant_, holds_it);
    if (!misspelt) reported.emplace_back(document_.place_of(problem.pointer), &problem);
  }
  // In the order of the document; problems at one place stay in the order in which they were found.
  std::ranges::stable_sort(reported, [](const auto& a, const auto& b) { return a.first < b.first; });
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
