// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/name_space.h"

#include <algorithm>

#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {
namespace {

constexpr int most_in_each_other = 10;
thread_local int being_printed = 0;

class Printing {
 public:
  Printing() {
    if (being_printed == most_in_each_other) throw Refused("namespaces are nested too deeply to be printed");
    ++being_printed;
  }
  ~Printing() { --being_printed; }
  Printing(const Printing&) = delete;
  Printing& operator=(const Printing&) = delete;
};

}  // namespace

std::string NameSpace::repr() const {
  const Printing printing;
  std::vector<std::pair<Value, Value>> pairs;
  for (const auto& [name, value] : attributes_) pairs.emplace_back(text(name), value);
  return "<Namespace " + jinja::repr(dictionary(pairs)) + ">";
}

std::optional<Value> NameSpace::attribute(std::string_view name) {
  const auto found = std::ranges::find(attributes_, name, [](const auto& each) { return each.first; });
  return found == attributes_.end() ? std::nullopt : std::optional(found->second);
}

void NameSpace::set(const std::string& name, Value value) {
  if (name.starts_with('_'))
    throw Refused("Chat templates cannot store underscore-prefixed attributes on a namespace, but got " +
                  jinja::repr(std::string_view(name)) + ". Please rename the attribute.");
  const auto found = std::ranges::find(attributes_, name, [](const auto& each) { return each.first; });
  if (found != attributes_.end()) {
    found->second = std::move(value);
  } else {
    attributes_.emplace_back(name, std::move(value));
  }
}

}  // namespace llmtrain::jinja
