// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/keys/key_table.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

class RecipeWriter final : public KeyVisitor {
 public:
  // The recipe is resolved: a default must not replace what it holds.
  RecipeWriter() : KeyVisitor(Defaults::keep) { levels_.push_back({"", Json::object()}); }
  Json take() { return std::move(levels_.front().value); }

  void integer(const Key& key, std::int64_t& field, IntegerRange) override { put(key, field); }
  void automatic_integer(const Key& key, std::optional<std::int64_t>& field, IntegerRange) override {
    put(key, field ? Json(*field) : Json("auto"));
  }
  void number(const Key& key, double& field, NumberRange) override { put(key, field); }
  void boolean(const Key& key, bool& field) override { put(key, field); }
  void text(const Key& key, std::string& field, const TextRule& rule) override {
    if (rule.kind != TextKind::schema_link || !field.empty()) put(key, field);
  }
  void nullable_text(const Key& key, std::optional<std::string>& field, const TextRule&) override {
    put(key, field ? Json(*field) : Json());
  }
  void tokenizer(const Key& key, TokenizerRecipe& field) override {
    if (field.kind == TokenizerKind::bytes) return put(key, "bytes");
    const auto name = tokenizer_file_keys[field.kind == TokenizerKind::sentencepiece ? 0 : 1];
    put(key, Json::object({{std::string(name), field.file}}));
  }
  void balance(const Key& key, BalanceRecipe& field, IntegerRange) override {
    if (field.kind == BalanceKind::list) return put(key, field.layers_per_stage);
    put(key, std::string(balance_words[static_cast<std::size_t>(field.kind)]));
  }

 private:
  struct Level {
    std::string name;
    Json value;
  };

  void word(const Key& key, std::size_t& index, Words words) override { put(key, std::string(words[index])); }
  void enter_section(const Key& key) override { levels_.push_back({std::string(key.name), Json::object()}); }
  bool enter_optional_section(const Key& key, bool present) override {
    if (present) {
      enter_section(key);
    } else {
      put(key, nullptr);
    }
    return present;
  }
  std::size_t enter_list(const Key& key, std::size_t size) override {
    levels_.push_back({std::string(key.name), Json::array()});
    return size;
  }
  void enter_entry(std::size_t) override { levels_.push_back({"", Json::object()}); }
  void leave_section() override {
    auto level = std::move(levels_.back());
    levels_.pop_back();
    auto& outer = levels_.back().value;
    if (outer.is_array()) {
      outer.push_back(std::move(level.value));
    } else {
      outer[level.name] = std::move(level.value);
    }
  }
  void leave_list() override { leave_section(); }

  void put(const Key& key, Json value) { levels_.back().value[std::string(key.name)] = std::move(value); }

  std::vector<Level> levels_;
};

}  // namespace

nlohmann::ordered_json to_json(const Recipe& recipe) {
  RecipeWriter writer;
  // The table takes a recipe that a visitor may change; this one does not.
  Recipe copy = recipe;
  describe_keys(writer, copy);
  return writer.take();
}

}  // namespace llmtrain
