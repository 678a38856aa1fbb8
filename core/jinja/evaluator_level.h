// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <utility>

#include "core/jinja/evaluator.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {

class Evaluator::Level {
 public:
  static constexpr int deepest = 600;

  explicit Level(Evaluator& evaluator) : evaluator_(evaluator) {
    if (evaluator_.level_ == deepest) throw Refused("the template calls itself too often, or is nested too deeply");
    ++evaluator_.level_;
  }
  ~Level() { --evaluator_.level_; }
  Level(const Level&) = delete;
  Level& operator=(const Level&) = delete;

 private:
  Evaluator& evaluator_;
};

class Evaluator::Capture {
 public:
  explicit Capture(Evaluator& evaluator) : evaluator_(evaluator), outer_(std::exchange(evaluator.output_, {})) {
    ++evaluator_.captures_;
  }
  ~Capture() {
    --evaluator_.captures_;
    evaluator_.output_ = std::move(outer_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  std::string take() { return std::exchange(evaluator_.output_, {}); }

 private:
  Evaluator& evaluator_;
  std::string outer_;
};

}  // namespace llmtrain::jinja
