// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <span>
#include <string_view>

#include "core/recipe/recipe.h"

namespace llmtrain {

// Whether a run may go on with another value of a key.
struct ResumeRule {
  std::string_view pointer;  // a key, or a section with all its keys
  std::string_view reason;   // why not; empty where it may
};

// Every key of the key table, once.
std::span<const ResumeRule> resume_rules();

// Why a run of this recipe cannot go on with another value of the key; empty where it can.
std::string_view reason_against_change(std::string_view pointer, const Recipe& recipe);

}  // namespace llmtrain
