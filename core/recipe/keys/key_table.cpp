// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/key_table.h"

#include <algorithm>
#include <limits>
#include <utility>

#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

struct Entry {
  std::string pointer;
  std::string values;         // empty for a section
  std::string default_words;  // empty for a section
  std::string help;
};

// Lists the keys of the table, with one entry per list.
class KeyLister final : public KeyVisitor {
 public:
  // Over a default recipe: each member then holds the default that the table shows.
  KeyLister() : KeyVisitor(Defaults::fill) {}
  std::vector<Entry> entries;

 private:
  void value(const Key& key, const KeyValue& value) override {
    add(key, value.words, words_of(value.json));
    sections_.push_back(append_key(sections_.back(), key.name));
    for (const auto name : value.file_keys) add({name, "The tokenizer's file."}, "a path", "none");
    sections_.pop_back();
  }
  std::size_t enter(const Key& key, Section, std::size_t) override {
    sections_.push_back(append_key(sections_.back(), key.name));
    entries.push_back({sections_.back(), "", "", std::string(key.help)});
    return 1;
  }
  void enter_entry(std::size_t index) override {
    sections_.push_back(append_key(sections_.back(), std::to_string(index)));
  }
  void leave() override { sections_.pop_back(); }

  static std::string words_of(const Json& value) {
    if (value.is_number_float()) return number_words(value.get<double>());
    if (!value.is_string()) return value.dump();
    const auto& text = value.get_ref<const std::string&>();
    return text.empty() ? "none" : text;
  }

  void add(const Key& key, std::string values, std::string value) {
    auto words = std::move(value);
    if (!key.default_words.empty()) words = key.default_words;
    if (key.presence != Presence::optional) words = "required";
    if (key.presence == Presence::required_without_from) words += " without from";
    entries.push_back(
        {append_key(sections_.back(), key.name), std::move(values), std::move(words), std::string(key.help)});
  }

  std::vector<std::string> sections_ = {""};
};

std::vector<Entry> all_entries() {
  KeyLister lister;
  Recipe recipe;
  describe_keys(lister, recipe);
  return std::move(lister.entries);
}

// In the form that `--set` accepts: "data.train.0.path".
std::string dotted(const std::string& pointer) {
  auto path = pointer.substr(1);
  std::replace(path.begin(), path.end(), '/', '.');
  return path;
}

// Markdown would treat <name> as HTML.
std::string escaped(const std::string& text) {
  std::string result;
  for (const char c : text) result += c == '<' ? "&lt;" : std::string(1, c);
  return result;
}

}  // namespace

void describe_keys(KeyVisitor& keys, Recipe& recipe) {
  keys.text({"$schema", "JSON Schema for editors to check the recipe against; llmtrain does not read it."},
            recipe.schema, {});
  keys.text({"name", "Name of the run and, by default, of its run directory."}, recipe.name, {TextKind::name});
  keys.text({"description", "What the recipe is for; not read by llmtrain."}, recipe.description, {});
  keys.integer(
      {"seed",
       "Random seed of initial weights, data order and dropout masks; their values do not depend on the layout."},
      recipe.seed, {0, std::numeric_limits<std::int64_t>::max()});
  describe_model(keys, recipe.model);
  describe_data(keys, recipe.data);
  describe_batch(keys, recipe.batch, recipe.model);
  describe_training(keys, recipe.training);
  describe_layout(keys, recipe);
  describe_running(keys, recipe);
}

std::vector<std::string> key_pointers() {
  std::vector<std::string> pointers;
  for (auto& entry : all_entries()) pointers.push_back(std::move(entry.pointer));
  return pointers;
}

std::string recipe_reference_markdown() {
  std::string table = "| key | takes | default | meaning |\n|---|---|---|---|\n";
  for (const auto& entry : all_entries()) {
    if (entry.values.empty()) {
      table += "| **`" + dotted(entry.pointer) + "`** | | | " + entry.help + " |\n";
    } else {
      table += "| `" + dotted(entry.pointer) + "` | " + entry.values + " | " + escaped(entry.default_words) + " | " +
               entry.help + " |\n";
    }
  }
  return table;
}

}  // namespace llmtrain
