// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/rules.h"

#include <algorithm>

#include "core/recipe/hints.h"

namespace llmtrain {

bool RuleCheck::are_clean(std::initializer_list<std::string_view> pointers) const {
  return std::all_of(pointers.begin(), pointers.end(),
                     [&](std::string_view pointer) { return problems_.is_clean(pointer); });
}

void RuleCheck::refuse(const std::string& pointer, const std::string& what, const std::string& rule,
                       const std::string& hint) const {
  problems_.add(pointer, what, rule, hint);
}

void RuleCheck::multiple(const std::string& pointer, std::int64_t value, std::int64_t divisor,
                         const std::string& rule) const {
  if (value % divisor == 0) return;
  refuse(pointer, std::to_string(value) + " is not a multiple of " + std::to_string(divisor),
         "must be a multiple of " + rule, std::to_string(nearest_multiple(value, divisor)));
}

void RuleCheck::divisor(const std::string& pointer, std::int64_t value, std::int64_t whole,
                        const std::string& rule) const {
  if (whole % value == 0) return;
  refuse(pointer, std::to_string(value) + " does not divide " + std::to_string(whole), "must divide " + rule,
         std::to_string(nearest_divisor(value, whole)));
}

void check_rules(const Recipe& recipe, const Document& document, Problems& problems) {
  const RuleCheck check(recipe, document, problems);
  check_model_rules(check);
  check_training_rules(check);
  check_layout_rules(check);
  check_pipeline_rules(check);
  check_size_rules(check);
}

}  // namespace llmtrain
