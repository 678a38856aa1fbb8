// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace llmtrain {

struct TimeSpan {
  double start = 0;
  double end = 0;
};

// A time span and where it is drawn.
struct TimePiece {
  TimeSpan seconds;
  double left = 0;
  double right = 0;
  bool is_cut = false;  // compressed to a narrow band without content
};

struct TimeTick {
  double x = 0;
  std::string label;
};

// Maps a step's seconds to 0 … width. An omitted middle part takes a band of fixed width.
class TimeAxis {
 public:
  // `seconds` must be positive and `cut` inside it.
  TimeAxis(double seconds, double width, std::optional<TimeSpan> cut);

  double x(double seconds) const;
  const std::vector<TimePiece>& pieces() const { return pieces_; }
  double width() const { return width_; }
  // At round times, about 80 to 200 units apart.
  std::vector<TimeTick> ticks() const;

 private:
  double width_;
  std::vector<TimePiece> pieces_;
};

}  // namespace llmtrain
