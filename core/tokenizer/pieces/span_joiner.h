// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

#include "core/tokenizer/pieces/pre_tokenizer.h"

namespace llmtrain {

// Makes pieces of the spans that cover a text from left to right, places to cut at and what is between them, by a
// behavior.
class SpanJoiner {
 public:
  struct Span {
    std::size_t begin;
    std::size_t end;
    bool is_place;
  };

  explicit SpanJoiner(SplitBehavior behavior) : behavior_(behavior) {}

  // Calls `piece(begin, end)` with what is complete with the next span.
  template <class Piece>
  void add(const Span& span, const Piece& piece) {
    if (behavior_ == SplitBehavior::isolated) return piece(span.begin, span.end);
    if (behavior_ == SplitBehavior::removed) {
      if (!span.is_place) piece(span.begin, span.end);
      return;
    }
    if (held_ && joins(*held_, span)) {
      held_->end = span.end;
      held_->is_place = behavior_ == SplitBehavior::merged_with_next ? false : span.is_place;
      return;
    }
    finish(piece);
    held_ = span;
  }

  template <class Piece>
  void finish(const Piece& piece) {
    if (held_) piece(held_->begin, held_->end);
    held_.reset();
  }

 private:
  // A place joins what is not one, on its one side and once.
  bool joins(const Span& held, const Span& next) const {
    switch (behavior_) {
      case SplitBehavior::contiguous:
        return held.is_place == next.is_place;
      case SplitBehavior::merged_with_previous:
        return !held.is_place && next.is_place;
      case SplitBehavior::merged_with_next:
        return held.is_place && !next.is_place;
      case SplitBehavior::removed:
      case SplitBehavior::isolated:
        break;
    }
    return false;
  }

  SplitBehavior behavior_;
  std::optional<Span> held_;
};

}  // namespace llmtrain
