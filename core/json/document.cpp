// SPDX-License-Identifier: Apache-2.0
#include "core/json/document.h"

#include <algorithm>

namespace llmtrain {
namespace {

// The index of `key` among the children of `value`, or their number.
std::size_t child_index(const Json& value, const std::string& key) {
  if (value.is_array()) {
    // Short enough for std::stoul on every platform.
    const bool is_index = !key.empty() && key.size() < 10 &&
                          std::all_of(key.begin(), key.end(), [](unsigned char c) { return c >= '0' && c <= '9'; });
    return is_index ? std::min<std::size_t>(std::stoul(key), value.size()) : value.size();
  }
  if (!value.is_object()) return 0;
  const auto& object = value.get_ref<const Json::object_t&>();
  const auto found = std::find_if(object.begin(), object.end(), [&](const auto& entry) { return entry.first == key; });
  return static_cast<std::size_t>(found - object.begin());
}

const Json& child(const Json& value, std::size_t index) {
  return value.is_array() ? value[index] : (value.get_ref<const Json::object_t&>().begin() + index)->second;
}

}  // namespace

std::vector<std::size_t> Document::place_of(std::string_view pointer) const {
  std::vector<std::size_t> place;
  const Json* value = &root;
  for (const auto& key : split_pointer(pointer)) {
    place.push_back(child_index(*value, key));
    // A missing value ends the path: its index is one past its siblings.
    if (!value->is_structured() || place.back() == value->size()) break;
    value = &child(*value, place.back());
  }
  return place;
}

bool Document::holds(std::string_view pointer) const {
  const Json* value = &root;
  for (const auto& key : split_pointer(pointer)) {
    const auto index = child_index(*value, key);
    if (!value->is_structured() || index == value->size()) return false;
    value = &child(*value, index);
  }
  return true;
}

bool Document::is_override(std::string_view pointer) const {
  return std::any_of(overridden.begin(), overridden.end(),
                     [&](const std::string& set) { return lies_in(pointer, set); });
}

bool lies_in(std::string_view pointer, std::string_view ancestor) {
  return pointer.starts_with(ancestor) && (pointer.size() == ancestor.size() || pointer[ancestor.size()] == '/');
}

}  // namespace llmtrain
