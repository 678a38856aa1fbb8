// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/jinja/values/object.h"

namespace llmtrain::jinja {

// In 128 bits no place and no step of a range overflows.
__extension__ using WideInteger = __int128;

// Python's range, of at most as many numbers as Jinja's sandbox allows.
class Range : public Object {
 public:
  static constexpr std::int64_t longest = 100000;

  Range(std::int64_t start, std::int64_t stop, std::int64_t step);

  std::string type() const override { return "range"; }
  std::string repr() const override;
  bool is_true() const override { return size_ > 0; }
  std::optional<std::size_t> length() const override { return static_cast<std::size_t>(size_); }
  std::unique_ptr<Iterator> iterate() override;
  std::unique_ptr<Iterator> iterate_backwards() override;
  std::optional<Value> attribute(std::string_view name) override;
  std::optional<Value> element(std::int64_t index) const override;
  bool has_elements() const override { return true; }
  bool equals(const Object& other) const override;

 private:
  std::int64_t start_, stop_, step_, size_;
};

// range() as a template calls it.
Value make_range(const Arguments& arguments);

}  // namespace llmtrain::jinja
