// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "core/json/document.h"
#include "core/json/problems.h"
#include "core/recipe/keys/key_visitor.h"

namespace llmtrain {

// Fills a recipe from a document: checks every value on its own, fills in defaults, reports unknown and missing keys. A
// wrong value leaves its member's default and one problem.
class RecipeReader final : public KeyVisitor {
 public:
  // `folder` is the base of relative paths in the recipe itself; those from `--set` are relative to the working
  // directory.
  RecipeReader(const Document& document, const std::filesystem::path& folder, Problems& problems);

  // Reports the unknown keys outside of all sections; must be called last.
  void finish() { leave_section(); }

  void integer(const Key& key, std::int64_t& field, IntegerRange range) override;
  void automatic_integer(const Key& key, std::optional<std::int64_t>& field, IntegerRange range) override;
  void number(const Key& key, double& field, NumberRange range) override;
  void boolean(const Key& key, bool& field) override;
  void text(const Key& key, std::string& field, const TextRule& rule) override;
  void nullable_text(const Key& key, std::optional<std::string>& field, const TextRule& rule) override;
  void tokenizer(const Key& key, TokenizerRecipe& field) override;
  void balance(const Key& key, BalanceRecipe& field, IntegerRange range) override;

 private:
  enum class State {
    given,
    absent,  // its keys get their defaults; required ones are reported as one missing section
    broken   // reported already
  };
  struct Level {
    const Json* value = nullptr;
    std::string pointer;
    State state = State::given;
    std::vector<std::string_view> visited{};
    std::vector<std::string_view> required{};  // of an absent section
  };

  void word(const Key& key, std::size_t& index, Words words) override;
  void enter_section(const Key& key) override;
  bool enter_optional_section(const Key& key, bool present) override;
  std::size_t enter_list(const Key& key, std::size_t size) override;
  void enter_entry(std::size_t index) override;
  void leave_section() override;
  void leave_list() override;

  std::string pointer_to(const Key& key) const { return append_key(levels_.back().pointer, key.name); }
  // The key's value, or null without one; a required key that is missing is reported, with its rule.
  const Json* take(const Key& key, const std::string& rule);
  void enter(const Json* value, std::string pointer, const std::string& rule);
  void report_unknown(const Level& level);
  void report_type(const std::string& pointer, const Json& value, const std::string& rule,
                   const std::string& hint = "");
  std::optional<std::int64_t> whole_number(const std::string& pointer, const Json& value, IntegerRange range,
                                           const std::string& rule);
  std::optional<std::string> checked_text(const std::string& pointer, const Json& value, const TextRule& rule);
  std::string resolved(const std::string& pointer, const std::string& text, const TextRule& rule) const;
  void tokenizer_file(const std::string& pointer, const Json& value, TokenizerRecipe& field);

  const Document& document_;
  const std::filesystem::path& folder_;
  Problems& problems_;
  std::vector<Level> levels_;
};

}  // namespace llmtrain
