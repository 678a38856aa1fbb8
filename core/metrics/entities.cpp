// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/entities.h"

#include <algorithm>
#include <iterator>
#include <stdexcept>
#include <string_view>
#include <tuple>

namespace llmtrain {
namespace {

// A tag's letter and type; what is beyond a sentence is "O".
struct Tag {
  char letter = 'O';
  std::string type{};

  bool is_outside() const { return letter == 'O' || letter == '.'; }
};

Tag tag_of(std::string_view written) {
  if (written.empty()) throw std::invalid_argument("a tag has at least a letter");
  const std::string_view rest = written.substr(1);
  const std::size_t dash = rest.find('-');
  const std::string_view type = dash == std::string_view::npos ? rest : rest.substr(dash + 1);
  return {written.front(), type.empty() ? "_" : std::string(type)};
}

bool is_one_of(char letter, std::string_view letters) { return letters.find(letter) != std::string_view::npos; }

bool ends_between(const Tag& before, const Tag& after) {
  if (is_one_of(before.letter, "ES")) return true;
  if (is_one_of(before.letter, "BI") && is_one_of(after.letter, "BSO")) return true;
  return !before.is_outside() && before.type != after.type;
}

bool begins_between(const Tag& before, const Tag& after) {
  if (is_one_of(after.letter, "BS")) return true;
  if (is_one_of(before.letter, "ESO") && is_one_of(after.letter, "EI")) return true;
  return !after.is_outside() && before.type != after.type;
}

double share_of(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::vector<Entity> entities_of(std::span<const std::string> tags) {
  std::vector<Entity> entities;
  Tag before;
  std::size_t first = 0;
  for (std::size_t word = 0; word <= tags.size(); ++word) {
    const Tag tag = word < tags.size() ? tag_of(tags[word]) : Tag{'O', "_"};
    if (ends_between(before, tag)) entities.push_back({before.type, first, word - 1});
    if (begins_between(before, tag)) first = word;
    before = tag;
  }
  return entities;
}

void EntityCounts::add(std::span<const std::string> labels, std::span<const std::string> predictions) {
  if (labels.size() != predictions.size()) throw std::invalid_argument("labels and predictions are of the same words");
  std::vector<Entity> wanted = entities_of(labels), found = entities_of(predictions), both;
  const auto order = [](const Entity& entity) { return std::tie(entity.type, entity.first, entity.last); };
  std::ranges::sort(wanted, {}, order);
  std::ranges::sort(found, {}, order);
  std::ranges::set_intersection(wanted, found, std::back_inserter(both), {}, order, order);
  right += std::ssize(both);
  predicted += std::ssize(found);
  there += std::ssize(wanted);
}

double EntityCounts::precision() const { return share_of(right, predicted); }

double EntityCounts::recall() const { return share_of(right, there); }

double EntityCounts::f1() const { return share_of(2 * right, predicted + there); }

}  // namespace llmtrain
