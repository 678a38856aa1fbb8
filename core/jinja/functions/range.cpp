// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/functions/range.h"

#include <spdlog/fmt/fmt.h>

#include <limits>
#include <vector>

#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {
namespace {

std::int64_t range_size(WideInteger start, WideInteger stop, WideInteger step) {
  if (step == 0) throw Refused("range() arg 3 must not be zero");
  const WideInteger distance = step > 0 ? stop - start : start - stop;
  const WideInteger size = distance <= 0 ? 0 : (distance - 1) / (step > 0 ? step : -step) + 1;
  if (size > Range::longest) {
    throw Refused(fmt::format("Range too big. The sandbox blocks ranges larger than MAX_RANGE ({}).", Range::longest));
  }
  return static_cast<std::int64_t>(size);
}

}  // namespace

Range::Range(std::int64_t start, std::int64_t stop, std::int64_t step)
    : start_(start), stop_(stop), step_(step), size_(range_size(start, stop, step)) {}

std::string Range::repr() const {
  return step_ == 1 ? fmt::format("range({}, {})", start_, stop_)
                    : fmt::format("range({}, {}, {})", start_, stop_, step_);
}

std::unique_ptr<Iterator> Range::iterate() {
  std::vector<Value> values;
  for (std::int64_t index = 0; index < size_; ++index) values.push_back(integer(start_ + index * step_));
  return iterator_over(std::move(values));
}

std::unique_ptr<Iterator> Range::iterate_backwards() {
  std::vector<Value> values;
  for (std::int64_t index = size_ - 1; index >= 0; --index) values.push_back(integer(start_ + index * step_));
  return iterator_over(std::move(values));
}

std::optional<Value> Range::attribute(std::string_view name) {
  if (name == "start") return integer(start_);
  if (name == "stop") return integer(stop_);
  if (name == "step") return integer(step_);
  if (name == "count" || name == "index") throw Refused("methods of ranges are not supported");
  return std::nullopt;
}

std::optional<Value> Range::element(std::int64_t index) const {
  if (index < 0) index += size_;
  if (index < 0 || index >= size_) return std::nullopt;
  return integer(start_ + index * step_);
}

bool Range::equals(const Object& other) const {
  const auto* range = dynamic_cast<const Range*>(&other);
  return range && range->size_ == size_ && (size_ == 0 || range->start_ == start_) &&
         (size_ <= 1 || range->step_ == step_);
}

Value make_range(const Arguments& arguments) {
  const BoundArguments bound("range", arguments, {"start", "stop", "step"}, 1, false);
  std::int64_t start = 0, stop = bound.integer(0, 0);
  if (bound.get(1)) {
    start = stop;
    stop = bound.integer(1, 0);
  }
  return object(std::make_shared<Range>(start, stop, bound.integer(2, 1)));
}

}  // namespace llmtrain::jinja
