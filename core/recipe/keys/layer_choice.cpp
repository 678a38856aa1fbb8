// SPDX-License-Identifier: Apache-2.0
#include "core/recipe/keys/layer_choice.h"

#include <charconv>
#include <cstdint>
#include <optional>

#include "core/recipe/recipe_reader.h"

namespace llmtrain {
namespace {

// Both ends belong to it.
struct LayerRange {
  std::int64_t first = 0, last = 0;
};

std::optional<std::int64_t> number_of(std::string_view text) {
  std::int64_t number = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, number);
  if (text.empty() || error != std::errc{} || stop != end) return std::nullopt;
  return number;
}

// "4-7".
std::optional<LayerRange> range_of(std::string_view text, IntegerRange layers) {
  const auto dash = text.find('-');
  if (dash == std::string_view::npos) return std::nullopt;
  const auto first = number_of(text.substr(0, dash)), last = number_of(text.substr(dash + 1));
  if (!first || !last || *first < layers.minimum || *last > layers.maximum || *first > *last) return std::nullopt;
  return LayerRange{*first, *last};
}

std::optional<LayerRange> read_entry(const WrittenValue& entry, IntegerRange layers) {
  if (entry.json().is_string()) {
    const auto range = range_of(entry.json().get<std::string>(), layers);
    if (!range) entry.refuse(entry.json().dump() + " is no range of layers");
    return range;
  }
  const auto layer = entry.whole_number(layers);
  if (!layer) return std::nullopt;
  return LayerRange{*layer, *layer};
}

class LayerChoice {
 public:
  void name(const LayerRange& range, Recompute level, const WrittenValue& entry) {
    const auto end = static_cast<std::size_t>(range.last) + 1;
    if (levels_.size() < end) levels_.resize(end);
    for (auto layer = static_cast<std::size_t>(range.first); layer < end; ++layer) {
      if (levels_[layer]) return entry.refuse("layer " + std::to_string(layer) + " is named before");
      levels_[layer] = level;
    }
  }

  std::vector<Recompute> levels() const {
    std::vector<Recompute> all;
    for (const std::optional<Recompute>& level : levels_) all.push_back(level.value_or(Recompute{}));
    return all;
  }

 private:
  std::vector<std::optional<Recompute>> levels_;
};

}  // namespace

std::string layer_range_words(IntegerRange layers) {
  return "a layer from " + std::to_string(layers.minimum) + " to " + std::to_string(layers.maximum) +
         ", or a range of them such as \"4-7\", each named once";
}

Json layer_choice_json(const std::vector<Recompute>& of_layers, Words words) {
  Json json = Json::object();
  for (std::size_t first = 0, end = 0; first < of_layers.size(); first = end) {
    while (end < of_layers.size() && of_layers[end] == of_layers[first]) ++end;
    // The last layer has been named, whatever its level.
    if (of_layers[first] == Recompute{} && end < of_layers.size()) continue;
    Json& list = json[std::string(words[static_cast<std::size_t>(of_layers[first])])];
    if (list.is_null()) list = Json::array();
    if (end - first == 1)
      list.push_back(first);
    else
      list.push_back(std::to_string(first) + "-" + std::to_string(end - 1));
  }
  return json;
}

std::vector<Recompute> read_layer_choice(const WrittenValue& written, Words words, IntegerRange layers,
                                         const std::string& entry_words) {
  LayerChoice choice;
  bool is_named = false;
  for (std::size_t level = 0; level < words.size(); ++level) {
    const std::string word(words[level]);
    const auto list = written.json().find(word);
    if (list == written.json().end()) continue;
    const WrittenValue of_word = written.child(word, *list, "a list of layers");
    is_named = true;
    if (!list->is_array()) {
      of_word.refuse_type();
      continue;
    }
    if (list->empty()) of_word.refuse("the list is empty");
    for (std::size_t i = 0; i < list->size(); ++i) {
      const WrittenValue entry = of_word.child(std::to_string(i), (*list)[i], entry_words);
      if (const auto range = read_entry(entry, layers)) choice.name(*range, static_cast<Recompute>(level), entry);
    }
  }
  written.refuse_unknown_keys(words);
  if (!is_named && written.json().empty()) written.refuse("is an empty object");
  return choice.levels();
}

}  // namespace llmtrain
