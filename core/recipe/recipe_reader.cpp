// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/recipe_reader.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "core/recipe/keys/key_table.h"
#include "core/recipe/keys/written_value.h"

namespace llmtrain {
namespace {

class RecipeReader final : public KeyVisitor {
 public:
  explicit RecipeReader(const WrittenValue::Source& source) : KeyVisitor(Defaults::fill), source_(source) {
    enter_object(&source.document.root, "", "an object with model, batch and training");
  }

  // Reports the unknown keys outside of all sections; must be called last.
  void finish() { leave(); }

 private:
  enum class State {
    given,
    absent,  // its keys get their defaults; required ones are reported as one missing section
    broken   // reported already
  };
  struct Level {
    const Json* json = nullptr;
    std::string pointer;
    State state = State::given;
    std::vector<std::string_view> visited{};
    std::vector<std::string_view> required{};  // of an absent section
  };

  void value(const Key& key, const KeyValue& value) override {
    if (const Json* json = take(key, value.words)) value.read({*json, pointer_to(key), value.words, source_});
  }

  std::size_t enter(const Key& key, Section section, std::size_t) override {
    // In the order of Section.
    constexpr std::array<const char*, 3> kinds = {"an object", "null or an object", "a list of objects"};
    const std::string words = kinds[static_cast<std::size_t>(section)];
    const Json* json = take(key, words);
    if (section == Section::optional_object && (json == nullptr || json->is_null())) return 0;
    if (section != Section::list) {
      enter_object(json, pointer_to(key), words);
      return 1;
    }
    if (json != nullptr && !json->is_array()) {
      WrittenValue(*json, pointer_to(key), words, source_).refuse_type();
      json = nullptr;
    }
    levels_.push_back({json, pointer_to(key)});
    return json == nullptr ? 0 : json->size();
  }

  void enter_entry(std::size_t index) override {
    const auto& list = levels_.back();
    enter_object(&(*list.json)[index], append_key(list.pointer, std::to_string(index)), "an object with a path");
  }

  void leave() override {
    const Level level = std::move(levels_.back());
    levels_.pop_back();
    if (level.json != nullptr && level.json->is_object())
      WrittenValue(*level.json, level.pointer, "", source_).refuse_unknown_keys(level.visited);
    if (level.required.empty()) return;
    std::string names;
    for (const auto name : level.required) names.append(names.empty() ? "" : ", ").append(name);
    source_.problems.add_missing(level.pointer, "must be an object with " + names);
  }

  void enter_object(const Json* json, std::string pointer, const std::string& words) {
    // Within a section of the wrong type nothing more is reported.
    const auto outer = levels_.empty() ? State::given : levels_.back().state;
    Level level{json, std::move(pointer), outer == State::broken ? State::broken : State::absent};
    if (json != nullptr) {
      level.state = json->is_object() ? State::given : State::broken;
      if (level.state == State::broken) WrittenValue(*json, level.pointer, words, source_).refuse_type();
    }
    levels_.push_back(std::move(level));
  }

  std::string pointer_to(const Key& key) const { return append_key(levels_.back().pointer, key.name); }

  // The key's value, or null without one; a required key that is missing is reported.
  const Json* take(const Key& key, const std::string& words) {
    auto& level = levels_.back();
    level.visited.push_back(key.name);
    if (level.state == State::given) {
      const auto found = level.json->find(std::string(key.name));
      if (found != level.json->end()) return &*found;
      if (key.presence == Presence::required) source_.problems.add_missing(pointer_to(key), "must be " + words);
    } else if (level.state == State::absent && key.presence == Presence::required) {
      // A missing section is one problem, reported when it is left, not one for each of its keys.
      level.required.push_back(key.name);
    }
    return nullptr;
  }

  const WrittenValue::Source source_;
  std::vector<Level> levels_;
};

}  // namespace

Recipe read_keys(const Document& document, const std::filesystem::path& folder, Problems& problems) {
  RecipeReader reader({document, folder, problems});
  Recipe recipe;
  describe_keys(reader, recipe);
  reader.finish();
  return recipe;
}

}  // namespace llmtrain
