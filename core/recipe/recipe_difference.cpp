// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/recipe_difference.h"

#include <algorithm>
#include <cstddef>

#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

bool holds_sections(const Json& list) {
  return list.is_array() && !list.empty() &&
         std::all_of(list.begin(), list.end(), [](const Json& entry) { return entry.is_object(); });
}

Json member(const Json& section, const std::string& name) {
  return section.is_object() && section.contains(name) ? section[name] : Json(nullptr);
}

void collect(const std::string& key, const Json& first, const Json& second, std::vector<KeyDifference>& found) {
  if (first == second) return;
  const auto inner = [&](const std::string& name) { return key.empty() ? name : key + "." + name; };
  // Entries of lists of different lengths do not correspond to each other.
  if (holds_sections(first) && holds_sections(second) && first.size() == second.size()) {
    for (std::size_t i = 0; i < first.size(); ++i) collect(inner(std::to_string(i)), first[i], second[i], found);
    return;
  }
  // A section against null: its keys are listed against null.
  const auto is_section = [](const Json& value) { return value.is_object() || value.is_null(); };
  if (!is_section(first) || !is_section(second)) {
    found.push_back({key, first, second});
    return;
  }
  if (first.is_object())
    for (const auto& [name, value] : first.items()) collect(inner(name), value, member(second, name), found);
  if (!second.is_object()) return;
  for (const auto& [name, value] : second.items())
    if (!first.is_object() || !first.contains(name)) collect(inner(name), nullptr, value, found);
}

}  // namespace

std::string KeyDifference::pointer() const {
  std::string path = "/" + key;
  std::replace(path.begin(), path.end(), '.', '/');
  return path;
}

std::string KeyDifference::text() const { return key + ": " + shown_value(first) + " -> " + shown_value(second); }

std::vector<KeyDifference> recipe_differences(const Recipe& first, const Recipe& second) {
  std::vector<KeyDifference> found;
  collect("", to_json(first), to_json(second), found);
  return found;
}

}  // namespace llmtrain
