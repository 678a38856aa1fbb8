// SPDX-License-Identifier: Apache-2.0
#include "core/page/text_table.h"

#include <algorithm>

namespace llmtrain {
namespace {

constexpr std::size_t gap = 2;
// How far lines are moved in that continue a row, and notes below their row.
constexpr std::size_t indent = 4;
// With fewer columns a note says nothing, and stands below its row.
constexpr std::size_t narrowest_note = 24;

// A line of the page that has no spaces at its end.
class Line {
 public:
  Line(Paint paint, std::size_t indentation) : paint_(paint), spaces_(indentation) {}

  void add(const TableCell& cell, std::size_t width, Align align) {
    const std::string text = clipped(cell.text, width);
    const std::size_t padding = width - columns(text);
    if (has_cells_) spaces_ += gap;
    has_cells_ = true;
    if (align == Align::right) spaces_ += padding;
    add_text(text, cell.ink);
    if (align == Align::left) spaces_ += padding;
  }
  void add_note(const std::string& note) {
    spaces_ += gap;
    add_text(note, Ink::plain);
  }
  // Columns of the cells, with their spaces.
  std::size_t used() const { return used_ + spaces_; }
  bool is_empty() const { return text_.empty(); }
  std::string text() const { return text_ + '\n'; }

 private:
  void add_text(const std::string& text, Ink ink) {
    if (text.empty()) return;
    text_ += std::string(spaces_, ' ') + paint_(ink, text);
    used_ += spaces_ + columns(text);
    spaces_ = 0;
  }

  Paint paint_;
  std::string text_;
  std::size_t used_ = 0;
  std::size_t spaces_;  // before the next text
  bool has_cells_ = false;
};

}  // namespace

// The width of each column, and where the lines of a row begin.
struct TextTable::Arrangement {
  std::vector<std::size_t> widths;
  std::vector<std::size_t> first_columns;
};

TextTable::Arrangement TextTable::arrange(std::size_t page) const {
  Arrangement arrangement{{}, {0}};
  std::size_t used = 0;
  for (std::size_t column = 0; column < columns_.size(); ++column) {
    std::size_t width = columns(columns_[column].head);
    for (const Row& row : rows_)
      if (column < row.cells.size()) width = std::max(width, columns(row.cells[column].text));
    width = std::min(width, page - indent);
    arrangement.widths.push_back(width);
    // A column without any text takes no space.
    if (width == 0) continue;
    const std::size_t with_gap = used == 0 ? width : gap + width;
    const bool fits = used + with_gap <= page;
    if (!fits) arrangement.first_columns.push_back(column);
    used = fits ? used + with_gap : indent + width;
  }
  return arrangement;
}

std::string TextTable::row_text(const Row& row, const Arrangement& arrangement, const TextStyle& style) const {
  const Paint paint{style.colour};
  Line line(paint, 0);
  std::string text;
  // A row of cells without text is a line; what continues a row is none.
  const auto end_line = [&] {
    if (text.empty() || !line.is_empty()) text += line.text();
  };
  auto next_line = arrangement.first_columns.begin() + 1;
  for (std::size_t column = 0; column < row.cells.size(); ++column) {
    if (next_line != arrangement.first_columns.end() && column == *next_line) {
      end_line();
      line = Line(paint, indent);
      ++next_line;
    }
    if (arrangement.widths[column] > 0) line.add(row.cells[column], arrangement.widths[column], columns_[column].align);
  }
  const std::size_t left = style.width - std::min(style.width, line.used() + gap);
  if (left < std::min(narrowest_note, columns(row.note))) {
    end_line();
    return text + std::string(indent, ' ') + clipped(row.note, style.width - indent) + '\n';
  }
  if (!row.note.empty()) line.add_note(clipped(row.note, left));
  end_line();
  return text;
}

std::string TextTable::text(const TextStyle& style) const {
  const Arrangement arrangement = arrange(style.width);
  Row head;
  for (const TableColumn& column : columns_) head.cells.push_back({column.head, Ink::strong});
  std::string text = row_text(head, arrangement, style);
  for (const Row& row : rows_) text += row_text(row, arrangement, style);
  return text;
}

}  // namespace llmtrain
