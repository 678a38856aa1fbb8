// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/key_table.h"

#include <algorithm>
#include <limits>
#include <map>
#include <set>
#include <utility>

#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

struct Entry {
  std::string pointer;
  std::string values;
  std::string default_words;
  std::string help;
  bool is_section = false;
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
    for (const auto name : value.file_keys) add({name, value.file_help}, "a path", "none");
    sections_.pop_back();
  }
  std::size_t enter(const Key& key, Section section, std::size_t size) override {
    sections_.push_back(append_key(sections_.back(), key.name));
    auto& entry = entries.emplace_back(Entry{sections_.back(), "a section", "", std::string(key.help), true});
    if (section == Section::list) {
      entry.values = "a list of sections";
      entry.default_words = "[]";
    } else if (section == Section::optional_object) {
      entry.values = "null or a section";
      entry.default_words = size == 0 ? "null" : "";
    }
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
    const char* before = " without ";
    for (const std::string_view other : stand_ins(key.presence))
      words.append(std::exchange(before, " or ")).append(other);
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

// The nearest section above the key, "" for the recipe itself.
std::string section_of(const std::string& pointer, const std::set<std::string>& sections) {
  auto above = pointer;
  do above.resize(above.rfind('/'));
  while (!above.empty() && !sections.contains(above));
  return above;
}

// Links from other pages lead to it: recipe.md#training.steps.
std::string anchor(const std::string& path) { return "<a id=\"" + path + "\"></a>"; }

std::string row(const Entry& entry) {
  const auto path = dotted(entry.pointer);
  // The name leads to a section's own table, which has its anchor.
  const auto name = entry.is_section ? "[`" + path + "`](#" + path + ")" : anchor(path) + "`" + path + "`";
  return "| " + name + " | " + entry.values + " | " + escaped(entry.default_words) + " | " + entry.help + " |\n";
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
  const auto entries = all_entries();
  std::set<std::string> sections;
  std::map<std::string, std::string> rows;
  for (const auto& entry : entries) {
    if (entry.is_section) sections.insert(entry.pointer);
    rows[section_of(entry.pointer, sections)] += row(entry);
  }
  const std::string head = "| key | takes | default | meaning |\n|---|---|---|---|\n";
  std::string text = head + rows[""];
  for (const auto& entry : entries) {
    if (!entry.is_section) continue;
    const auto path = dotted(entry.pointer);
    const auto depth = static_cast<std::size_t>(std::count(path.begin(), path.end(), '.'));
    text += "\n" + std::string(3 + depth, '#') + " " + anchor(path) + path + "\n\n";
    text += entry.help + "\n\n" + head + rows[entry.pointer];
  }
  return text;
}

}  // namespace llmtrain
