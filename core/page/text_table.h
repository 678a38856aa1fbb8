// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "core/page/text_layout.h"

namespace llmtrain {

enum class Align { left, right };

struct TableColumn {
  std::string head;
  Align align = Align::right;
};

struct TableCell {
  std::string text;
  Ink ink = Ink::plain;
};

// A table in a terminal's columns. Each column is as wide as its widest cell, and two spaces are between columns. Where
// that is wider than the page, the last columns stand on a second (third …) line, in the head and in every row alike.
class TextTable {
 public:
  explicit TextTable(std::vector<TableColumn> columns) : columns_(std::move(columns)) {}

  // Cells of the first columns, and one line of text behind them, which is clipped to what the page leaves.
  void add(std::vector<TableCell> cells, std::string note = "") {
    rows_.push_back({std::move(cells), std::move(note)});
  }

  // The head and the rows. No line ends in a space.
  std::string text(const TextStyle& style) const;

 private:
  struct Row {
    std::vector<TableCell> cells;
    std::string note;
  };
  struct Arrangement;

  Arrangement arrange(std::size_t page) const;
  std::string row_text(const Row& row, const Arrangement& arrangement, const TextStyle& style) const;

  std::vector<TableColumn> columns_;
  std::vector<Row> rows_;
};

}  // namespace llmtrain
