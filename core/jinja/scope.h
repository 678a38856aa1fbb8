// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// The names that are set in a block; those of the blocks around it are seen through it.
struct Scope {
  std::shared_ptr<Scope> around;
  std::vector<std::pair<std::string, Value>> names;

  void set(const std::string& name, Value value) {
    for (auto& [each, known] : names) {
      if (each == name) {
        known = std::move(value);
        return;
      }
    }
    names.emplace_back(name, std::move(value));
  }

  // Null for a name that is set nowhere around.
  const Value* find(std::string_view name) const {
    for (const Scope* scope = this; scope; scope = scope->around.get()) {
      for (const auto& [each, value] : scope->names) {
        if (each == name) return &value;
      }
    }
    return nullptr;
  }
};

using ScopePointer = std::shared_ptr<Scope>;

inline ScopePointer scope_within(ScopePointer around) {
  auto scope = std::make_shared<Scope>();
  scope->around = std::move(around);
  return scope;
}

}  // namespace llmtrain::jinja
