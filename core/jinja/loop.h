// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "core/jinja/values/object.h"

namespace llmtrain::jinja {

// The variable loop: where a loop is among its items. Reads one item ahead where it is asked what comes.
class Loop : public Object, public std::enable_shared_from_this<Loop> {
 public:
  // Renders the loop's body for other items, for a loop that is recursive.
  using Recurse = std::function<Value(const Value& items, std::int64_t depth)>;

  // `length`: of the items, where it is known before they are gone through. `depth`: how many loops this one recurses
  // within.
  Loop(std::unique_ptr<Iterator> items, std::optional<std::size_t> length, std::int64_t depth, Recurse recurse)
      : items_(std::move(items)), length_(length), depth_(depth), recurse_(std::move(recurse)) {}

  // Goes to the next item; false at the end.
  bool advance();
  const Value& item() const { return *current_; }

  std::string type() const override { return "LoopContext"; }
  std::string repr() const override;
  std::optional<std::size_t> length() const override;
  std::optional<Value> attribute(std::string_view name) override;
  bool is_callable() const override { return true; }
  Value call(const Arguments& arguments) override;

 private:
  const std::optional<Value>& after();
  Value cycle(const Arguments& arguments) const;
  Value changed(const Arguments& arguments);
  std::int64_t size() const { return static_cast<std::int64_t>(*length()); }

  mutable std::unique_ptr<Iterator> items_;
  mutable std::optional<std::size_t> length_;
  std::int64_t depth_;
  Recurse recurse_;
  std::int64_t index_ = -1;  // of the current item, from 0
  std::optional<Value> before_, current_, after_;
  std::optional<std::vector<Value>> last_seen_;  // by changed()
};

}  // namespace llmtrain::jinja
