// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <initializer_list>
#include <string>
#include <string_view>

#include "core/recipe/document.h"
#include "core/recipe/problems.h"
#include "core/recipe/recipe.h"

namespace llmtrain {

// What the rules between keys look at, and where they tell what they find. A rule speaks only when every key that it
// reads is right in itself.
class RuleCheck {
 public:
  RuleCheck(const Recipe& checked, const Document& document, Problems& problems)
      : recipe(checked), document_(document), problems_(problems) {}

  const Recipe& recipe;

  bool is_given(std::string_view pointer) const { return document_.holds(pointer); }
  bool are_clean(std::initializer_list<std::string_view> pointers) const;
  void refuse(const std::string& pointer, const std::string& what, const std::string& rule,
              const std::string& hint = "") const;
  // Refuses `value` unless it is a multiple of `divisor`, with the nearest multiple as hint. `rule` follows "must be a
  // multiple of ".
  void multiple(const std::string& pointer, std::int64_t value, std::int64_t divisor, const std::string& rule) const;
  // Refuses `value` unless it divides `whole`, with the nearest divisor as hint. `rule` follows "must divide ".
  void divisor(const std::string& pointer, std::int64_t value, std::int64_t whole, const std::string& rule) const;

 private:
  const Document& document_;
  Problems& problems_;
};

// Every rule between keys.
void check_rules(const Recipe& recipe, const Document& document, Problems& problems);

// Its parts, one a file.
void check_model_rules(const RuleCheck& check);
void check_training_rules(const RuleCheck& check);
void check_layout_rules(const RuleCheck& check);
void check_pipeline_rules(const RuleCheck& check);
void check_size_rules(const RuleCheck& check);

}  // namespace llmtrain
