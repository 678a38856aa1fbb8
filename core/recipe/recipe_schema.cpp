// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/keys/key_table.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

Json whole_number(IntegerRange range) {
  return {{"type", "integer"}, {"minimum", range.minimum}, {"maximum", range.maximum}};
}

Json text_of(const TextRule& rule) {
  Json schema = {{"type", "string"}};
  // The schema is for editors: it covers what JSON Schema can express, the reader checks the rest.
  if (rule.kind == TextKind::name) schema["pattern"] = "^[^/]{1,200}$";
  if (rule.kind != TextKind::plain && rule.kind != TextKind::schema_link) schema["minLength"] = 1;
  return schema;
}

class SchemaWriter final : public KeyVisitor {
 public:
  SchemaWriter() : KeyVisitor(Defaults::fill) { levels_.emplace_back(); }

  Json take() {
    Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "llmtrain recipe"}};
    schema.update(object_of(levels_.back()));
    return schema;
  }

  void integer(const Key& key, std::int64_t& field, IntegerRange range) override {
    put(key, whole_number(range), field);
  }
  void automatic_integer(const Key& key, std::optional<std::int64_t>&, IntegerRange range) override {
    put(key, {{"oneOf", Json::array({{{"const", "auto"}}, whole_number(range)})}}, "auto");
  }
  void number(const Key& key, double& field, NumberRange range) override {
    const auto lower = range.ends == RangeEnds::open_minimum ? "exclusiveMinimum" : "minimum";
    const auto upper = range.ends == RangeEnds::open_maximum ? "exclusiveMaximum" : "maximum";
    put(key, {{"type", "number"}, {lower, range.minimum}, {upper, range.maximum}}, field);
  }
  void boolean(const Key& key, bool& field) override { put(key, {{"type", "boolean"}}, field); }
  void text(const Key& key, std::string& field, const TextRule& rule) override { put(key, text_of(rule), field); }
  void nullable_text(const Key& key, std::optional<std::string>&, const TextRule& rule) override {
    auto schema = text_of(rule);
    schema["type"] = {"string", "null"};
    put(key, std::move(schema), nullptr);
  }
  void tokenizer(const Key& key, TokenizerRecipe&) override {
    auto kinds = Json::array({{{"const", "bytes"}}});
    for (const auto name : tokenizer_file_keys) {
      Level level;
      level.properties[std::string(name)] = text_of({TextKind::path});
      level.required.push_back(std::string(name));
      kinds.push_back(object_of(level));
    }
    put(key, {{"oneOf", std::move(kinds)}}, "bytes");
  }
  void balance(const Key& key, BalanceRecipe&, IntegerRange range) override {
    const Json words = {{"enum", balance_words}};
    const Json list = {{"type", "array"}, {"items", whole_number(range)}};
    put(key, {{"oneOf", Json::array({words, list})}}, std::string(balance_words.front()));
  }

 private:
  struct Level {
    std::string name;
    std::string help;
    Json properties = Json::object();
    Json required = Json::array();
    bool nullable = false;
  };

  static Json object_of(const Level& level) {
    Json schema = {{"type", "object"}, {"additionalProperties", false}, {"properties", level.properties}};
    if (!level.required.empty()) schema["required"] = level.required;
    return schema;
  }

  void word(const Key& key, std::size_t& index, Words words) override {
    put(key, {{"enum", words}}, std::string(words[index]));
  }
  void enter_section(const Key& key) override {
    levels_.emplace_back();
    levels_.back().name = key.name;
    levels_.back().help = key.help;
  }
  bool enter_optional_section(const Key& key, bool) override {
    enter_section(key);
    levels_.back().nullable = true;
    return true;
  }
  std::size_t enter_list(const Key& key, std::size_t) override {
    enter_section(key);
    return 1;
  }
  void enter_entry(std::size_t) override { levels_.emplace_back(); }

  void leave_section() override {
    const auto level = std::move(levels_.back());
    levels_.pop_back();
    // An entry of a list has no name: it is the schema of the list's items.
    if (level.name.empty()) {
      items_ = object_of(level);
      return;
    }
    auto schema = object_of(level);
    if (level.nullable) {
      schema["type"] = {"object", "null"};
      schema["default"] = nullptr;
    }
    // A section with required keys cannot be left out itself.
    const bool required = !level.nullable && !level.required.empty();
    put({level.name, level.help, "", required ? Presence::required : Presence::optional}, std::move(schema),
        Json::object());
  }
  void leave_list() override {
    const auto level = std::move(levels_.back());
    levels_.pop_back();
    put({level.name, level.help}, {{"type", "array"}, {"items", std::move(items_)}}, Json::array());
  }

  void put(const Key& key, Json schema, Json value) {
    auto& level = levels_.back();
    const auto note = key.default_words.empty() ? "" : " Default: " + key.default_words + ".";
    Json property = {{"description", std::string(key.help) + note}};
    property.update(schema);
    if (key.presence == Presence::required) {
      level.required.push_back(std::string(key.name));
      // A default that depends on other keys is given in words, as a schema cannot express it.
    } else if (key.default_words.empty() && !property.contains("properties")) {
      property["default"] = std::move(value);
    }
    level.properties[std::string(key.name)] = std::move(property);
  }

  std::vector<Level> levels_;
  Json items_;
};

}  // namespace

nlohmann::ordered_json recipe_schema() {
  SchemaWriter writer;
  Recipe recipe;
  describe_keys(writer, recipe);
  return writer.take();
}

}  // namespace llmtrain
