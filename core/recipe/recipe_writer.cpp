// SPDX-License-Identifier: Apache-2.0
#include <string>
#include <utility>
#include <vector>

#include "core/json/json_text.h"
#include "core/recipe/keys/key_table.h"
#include "core/recipe/pipeline_order.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

class RecipeWriter final : public KeyVisitor {
 public:
  // The recipe is resolved: a default must not replace what it holds.
  RecipeWriter() : KeyVisitor(Defaults::keep) { levels_.push_back({"", Json::object()}); }
  Json take() { return std::move(levels_.front().json); }

 private:
  struct Level {
    std::string name;
    Json json;
  };

  void value(const Key& key, const KeyValue& value) override {
    // The link to a schema is left out when it is empty.
    if (key.name == "$schema" && value.json.get_ref<const std::string&>().empty()) return;
    // A resolved recipe has the keys that its model was taken from: it does not depend on their source any more.
    if (key.name == "from") return;
    put(std::string(key.name), value.json);
  }
  std::size_t enter(const Key& key, Section section, std::size_t size) override {
    if (section == Section::optional_object && size == 0) {
      put(std::string(key.name), nullptr);
    } else {
      levels_.push_back({std::string(key.name), section == Section::list ? Json::array() : Json::object()});
    }
    return size;
  }
  void enter_entry(std::size_t) override { levels_.push_back({"", Json::object()}); }
  void leave() override {
    auto level = std::move(levels_.back());
    levels_.pop_back();
    if (levels_.back().json.is_array()) {
      levels_.back().json.push_back(std::move(level.json));
    } else {
      put(level.name, std::move(level.json));
    }
  }

  void put(const std::string& name, Json json) { levels_.back().json[name] = std::move(json); }

  std::vector<Level> levels_;
};

// Filling in defaults is all that a visit does.
class DefaultFiller final : public KeyVisitor {
 public:
  DefaultFiller() : KeyVisitor(Defaults::fill) {}

 private:
  void value(const Key&, const KeyValue&) override {}
  std::size_t enter(const Key&, Section, std::size_t size) override { return size; }
  void enter_entry(std::size_t) override {}
  void leave() override {}
};

class SchemaWriter final : public KeyVisitor {
 public:
  SchemaWriter() : KeyVisitor(Defaults::fill) { levels_.emplace_back(); }

  Json take() {
    Json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"}, {"title", "llmtrain recipe"}};
    schema.update(object_of(levels_.back()));
    return schema;
  }

 private:
  struct Level {
    std::string name;
    std::string help;
    Section section = Section::object;
    Json properties = Json::object();
    Json required = Json::array();
    std::vector<Key> required_without{};  // other keys

    bool requires_keys() const { return !required.empty() || !required_without.empty(); }
  };

  static Json object_of(const Level& level) {
    Json schema = {{"type", "object"}, {"additionalProperties", false}, {"properties", level.properties}};
    // Not a property: it is no key with a meaning of its own.
    schema["patternProperties"] = {{std::string("^").append(section_comment).append("$"), {{"type", "string"}}}};
    if (!level.required.empty()) schema["required"] = level.required;
    if (level.required_without.empty()) return schema;
    schema["anyOf"] = Json::array();
    for (const std::string_view other : all_stand_ins(level)) {
      Json names = required_beside(level, other);
      names.insert(names.begin(), std::string(other));
      schema["anyOf"].push_back(
          {{"required", names}, {"properties", {{std::string(other), {{"not", {{"type", "null"}}}}}}}});
    }
    schema["anyOf"].push_back({{"required", required_beside(level, "")}});
    return schema;
  }

  // Each once, in the order of the keys that may be left out.
  static std::vector<std::string_view> all_stand_ins(const Level& level) {
    std::vector<std::string_view> all;
    for (const Key& key : level.required_without)
      for (const std::string_view other : stand_ins(key.presence))
        if (std::ranges::find(all, other) == all.end()) all.push_back(other);
    return all;
  }
  // The keys that may not be left out where this one is given.
  static Json required_beside(const Level& level, std::string_view other) {
    Json names = Json::array();
    for (const Key& key : level.required_without)
      if (std::ranges::count(stand_ins(key.presence), other) == 0) names.push_back(std::string(key.name));
    return names;
  }

  void value(const Key& key, const KeyValue& value) override { put(key, value.schema(), value.json); }
  std::size_t enter(const Key& key, Section section, std::size_t) override {
    levels_.push_back({std::string(key.name), std::string(key.help), section});
    return 1;
  }
  void enter_entry(std::size_t) override { levels_.emplace_back(); }

  void leave() override {
    const auto level = std::move(levels_.back());
    levels_.pop_back();
    // An entry of a list has no name: it is the schema of the list's items.
    if (level.name.empty()) {
      items_ = object_of(level);
      return;
    }
    if (level.section == Section::list) {
      put({level.name, level.help}, {{"type", "array"}, {"items", std::move(items_)}}, Json::array());
      return;
    }
    auto schema = object_of(level);
    const bool nullable = level.section == Section::optional_object;
    if (nullable) {
      schema["type"] = {"object", "null"};
      schema["default"] = nullptr;
    }
    // A section with required keys cannot be left out itself.
    const bool required = !nullable && level.requires_keys();
    put({level.name, level.help, "", required ? Presence::required : Presence::optional}, std::move(schema),
        Json::object());
  }

  void put(const Key& key, Json schema, Json value) {
    auto& level = levels_.back();
    const auto note = key.default_words.empty() ? "" : " Default: " + key.default_words + ".";
    Json property = {{"description", std::string(key.help) + note}};
    property.update(schema);
    if (key.presence == Presence::required) {
      level.required.push_back(std::string(key.name));
    } else if (!stand_ins(key.presence).empty()) {
      level.required_without.push_back(key);
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

nlohmann::ordered_json to_json(const Recipe& recipe) {
  RecipeWriter writer;
  // The table takes a recipe that a visitor may change; this one does not.
  Recipe copy = recipe;
  describe_keys(writer, copy);
  Json json = writer.take();
  if (recipe.training.counts_steps()) {
    // Steps that are not known yet are no value, and what follows from them is none.
    json["training"].erase("steps");
    if (recipe.training.learning_rate.decay_steps == 0) json["training"]["learning_rate"].erase("decay_steps");
  }
  return json;
}

Recipe with_dependent_defaults(const Recipe& recipe) {
  DefaultFiller filler;
  Recipe filled = recipe;
  describe_keys(filler, filled);
  set_default_order(filled);
  return filled;
}

nlohmann::ordered_json recipe_schema() {
  SchemaWriter writer;
  Recipe recipe;
  describe_keys(writer, recipe);
  return writer.take();
}

}  // namespace llmtrain
