// SPDX-License-Identifier: Apache-2.0
#include "core/metrics/text_counts.h"

#include <stdexcept>

namespace llmtrain {
namespace {

std::string_view without_white_space(std::string_view text) {
  constexpr std::string_view white = " \t\n\v\f\r";
  const std::size_t first = text.find_first_not_of(white);
  return first == std::string_view::npos ? "" : text.substr(first, text.find_last_not_of(white) + 1 - first);
}

}  // namespace

void TextCounts::add(std::string_view written, const std::string& reference) {
  bleu_.add(written, std::span(&reference, 1));
  ++texts_;
  if (without_white_space(written) == without_white_space(reference)) ++equal_;
}

std::vector<double> TextCounts::numbers() const {
  std::vector<double> numbers = bleu_.numbers();
  numbers.push_back(static_cast<double>(texts_));
  numbers.push_back(static_cast<double>(equal_));
  return numbers;
}

void TextCounts::add_numbers(std::span<const double> numbers) {
  if (numbers.size() < 2) throw std::logic_error("counts of texts have another number");
  bleu_.add_numbers(numbers.first(numbers.size() - 2));
  texts_ += static_cast<std::int64_t>(numbers[numbers.size() - 2]);
  equal_ += static_cast<std::int64_t>(numbers.back());
}

std::vector<Figure> TextCounts::figures() const {
  const double exact = texts_ == 0 ? 0 : static_cast<double>(equal_) / static_cast<double>(texts_);
  return {{"bleu", bleu_.score()}, {"exact_match", exact}};
}

}  // namespace llmtrain
