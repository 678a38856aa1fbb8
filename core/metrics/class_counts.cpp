// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/class_counts.h"

#include <algorithm>
#include <stdexcept>
#include <utility>

namespace llmtrain {
namespace {

constexpr std::size_t numbers_of_each = 3;

// Two tags at least are needed to say where a name begins and what is none.
bool are_tags(const std::vector<std::string>& classes) {
  const auto is_tag = [](const std::string& name) {
    return name == "O" || name.starts_with("B-") || name.starts_with("I-") || name.starts_with("E-") ||
           name.starts_with("S-");
  };
  return std::ranges::all_of(classes, is_tag) &&
         std::ranges::any_of(classes, [](const std::string& name) { return name != "O"; });
}

double share(std::int64_t part, std::int64_t whole) {
  return whole == 0 ? 0 : static_cast<double>(part) / static_cast<double>(whole);
}

}  // namespace

std::string figure_words(std::string name) {
  if (name == "bleu") return "BLEU";
  std::ranges::replace(name, '_', ' ');
  if (name == "f1" || name.ends_with(" f1")) name.replace(name.size() - 2, 2, "F1");
  return name;
}

bool is_share(std::string_view name) { return name != "bleu"; }

ClassCounts::ClassCounts(std::vector<std::string> classes)
    : classes_(std::move(classes)), counts_(classes_.size()), are_tags_(are_tags(classes_)) {}

void ClassCounts::add(std::span<const std::int64_t> labels, std::span<const std::int64_t> told) {
  std::vector<std::string> tags, told_tags;
  for (std::size_t row = 0; row < labels.size(); ++row) {
    const auto label = static_cast<std::size_t>(labels[row]), guess = static_cast<std::size_t>(told[row]);
    ++counts_.at(label).there;
    ++counts_.at(guess).told;
    if (label == guess) ++counts_[label].right;
    if (!are_tags_) continue;
    tags.push_back(classes_[label]);
    told_tags.push_back(classes_[guess]);
  }
  if (are_tags_) entities_.add(tags, told_tags);
}

std::vector<double> ClassCounts::numbers() const {
  std::vector<double> numbers;
  const auto add = [&](std::int64_t right, std::int64_t told, std::int64_t there) {
    for (const std::int64_t count : {right, told, there}) numbers.push_back(static_cast<double>(count));
  };
  for (const Count& count : counts_) add(count.right, count.told, count.there);
  add(entities_.right, entities_.predicted, entities_.there);
  return numbers;
}

void ClassCounts::add_numbers(std::span<const double> numbers) {
  if (numbers.size() != numbers_of_each * (counts_.size() + 1)) throw std::logic_error("counts are of other classes");
  const auto take = [&](std::size_t place, std::int64_t& right, std::int64_t& told, std::int64_t& there) {
    right += static_cast<std::int64_t>(numbers[numbers_of_each * place]);
    told += static_cast<std::int64_t>(numbers[numbers_of_each * place + 1]);
    there += static_cast<std::int64_t>(numbers[numbers_of_each * place + 2]);
  };
  for (std::size_t i = 0; i < counts_.size(); ++i) take(i, counts_[i].right, counts_[i].told, counts_[i].there);
  take(counts_.size(), entities_.right, entities_.predicted, entities_.there);
}

std::vector<Figure> ClassCounts::figures() const {
  std::int64_t right = 0, rows = 0, classes = 0;
  double sum = 0;
  for (const Count& count : counts_) {
    right += count.right;
    rows += count.there;
    if (count.told + count.there == 0) continue;
    ++classes;
    sum += share(2 * count.right, count.told + count.there);
  }
  std::vector<Figure> figures{{"accuracy", share(right, rows)},
                              {"macro_f1", classes == 0 ? 0 : sum / static_cast<double>(classes)}};
  if (are_tags_) figures.push_back({"entity_f1", entities_.f1()});
  return figures;
}

}  // namespace llmtrain
