// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/key_reference.h"

#include <algorithm>
#include <utility>

#include "core/json/json_text.h"
#include "core/recipe/keys/key_table.h"
#include "core/recipe/keys/rule_words.h"
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

  void integer(const Key& key, std::int64_t& field, IntegerRange range) override {
    add(key, range_words(range), std::to_string(field));
  }
  void automatic_integer(const Key& key, std::optional<std::int64_t>&, IntegerRange range) override {
    add(key, "\"auto\" or " + range_words(range), "auto");
  }
  void number(const Key& key, double& field, NumberRange range) override {
    add(key, range_words(range), number_words(field));
  }
  void boolean(const Key& key, bool& field) override { add(key, "true or false", field ? "true" : "false"); }
  void text(const Key& key, std::string& field, const TextRule& rule) override {
    add(key, text_words(rule), field.empty() ? "none" : field);
  }
  void nullable_text(const Key& key, std::optional<std::string>&, const TextRule& rule) override {
    add(key, text_words(rule), "null");
  }
  void tokenizer(const Key& key, TokenizerRecipe&) override {
    add(key, tokenizer_words(), "bytes");
    enter_section(key);
    // enter_section() has listed the key again, as a section.
    entries.pop_back();
    for (const auto name : tokenizer_file_keys)
      add({name, "The tokenizer's file."}, text_words({TextKind::path}), "none");
    leave_section();
  }
  void balance(const Key& key, BalanceRecipe&, IntegerRange) override { add(key, balance_rule_words(), "layers"); }

 private:
  void word(const Key& key, std::size_t& index, Words words) override {
    add(key, choice_words(words), std::string(words[index]));
  }
  void enter_section(const Key& key) override {
    sections_.push_back(append_key(sections_.back(), key.name));
    entries.push_back({sections_.back(), "", "", std::string(key.help)});
  }
  bool enter_optional_section(const Key& key, bool) override {
    enter_section(key);
    return true;
  }
  std::size_t enter_list(const Key& key, std::size_t) override {
    enter_section(key);
    return 1;
  }
  void enter_entry(std::size_t index) override {
    sections_.push_back(append_key(sections_.back(), std::to_string(index)));
  }
  void leave_section() override { sections_.pop_back(); }
  void leave_list() override { sections_.pop_back(); }

  void add(const Key& key, std::string values, std::string value) {
    auto words = std::move(value);
    if (!key.default_words.empty()) words = key.default_words;
    if (key.presence == Presence::required) words = "required";
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
