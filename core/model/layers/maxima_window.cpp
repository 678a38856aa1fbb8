// SPDX-License-Identifier: Apache-2.0
#include "core/model/layers/maxima_window.h"

#include <algorithm>

namespace llmtrain {

MaximaWindow::MaximaWindow(std::size_t rows, std::size_t columns)
    : columns_(columns),
      numbers_(2 * rows * columns),
      begin_(rows * columns),
      back_(rows * columns),
      in_front_(columns) {}

void MaximaWindow::assign(std::span<const float> newest_first) {
  // The rows may be this window's own.
  std::vector<float> rows(newest_first.begin(), newest_first.end());
  rows.resize(back_.size());
  begin_ = back_.size();
  std::ranges::copy(rows, numbers_.begin() + static_cast<std::ptrdiff_t>(begin_));
  count_back();
}

void MaximaWindow::count_back() {
  std::copy(numbers_.begin() + static_cast<std::ptrdiff_t>(back_.size()), numbers_.end(), back_.begin());
  for (std::size_t i = columns_; i < back_.size(); ++i) back_[i] = std::max(back_[i], back_[i - columns_]);
  std::ranges::fill(in_front_, 0.0F);
}

void MaximaWindow::push(std::span<const float> row) {
  if (begin_ == 0) {
    // All rows are in front: they become the back.
    begin_ = back_.size();
    std::copy_n(numbers_.begin(), begin_, numbers_.begin() + static_cast<std::ptrdiff_t>(begin_));
    count_back();
  }
  begin_ -= columns_;
  for (std::size_t column = 0; column < columns_; ++column) {
    numbers_[begin_ + column] = row[column];
    in_front_[column] = std::max(in_front_[column], row[column]);
  }
}

float MaximaWindow::largest(std::size_t column) const {
  // As many rows of the back are left as there is room beside those in front.
  return begin_ == 0 ? in_front_[column] : std::max(in_front_[column], back_[begin_ - columns_ + column]);
}

}  // namespace llmtrain
