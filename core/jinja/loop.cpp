// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/loop.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/jinja/functions/native_function.h"
#include "core/jinja/values/comparison.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {

bool Loop::advance() {
  auto following = after_ ? std::exchange(after_, std::nullopt) : items_->next();
  if (!following) return false;
  ++index_;
  before_ = std::exchange(current_, std::move(following));
  return true;
}

const std::optional<Value>& Loop::after() {
  if (!after_) after_ = items_->next();
  return after_;
}

std::string Loop::repr() const { return fmt::format("<LoopContext {}/{}>", index_ + 1, size()); }

// What has no length is gone through to the end.
std::optional<std::size_t> Loop::length() const {
  if (!length_) {
    std::vector<Value> rest;
    while (auto each = items_->next()) rest.push_back(std::move(*each));
    length_ = rest.size() + static_cast<std::size_t>(index_ + 1) + (after_ ? 1 : 0);
    items_ = iterator_over(std::move(rest));
  }
  return length_;
}

std::optional<Value> Loop::attribute(std::string_view name) {
  if (name == "index") return integer(index_ + 1);
  if (name == "index0") return integer(index_);
  if (name == "first") return boolean(index_ == 0);
  if (name == "last") return boolean(!after());
  if (name == "length") return integer(size());
  if (name == "revindex") return integer(size() - index_);
  if (name == "revindex0") return integer(size() - index_ - 1);
  if (name == "depth") return integer(depth_ + 1);
  if (name == "depth0") return integer(depth_);
  if (name == "previtem") return index_ == 0 ? undefined("there is no previous item") : *before_;
  if (name == "nextitem") return after() ? *after() : undefined("there is no next item");
  const auto method = [&](Value (*body)(Loop&, const Arguments&)) {
    return object(std::make_shared<NativeFunction>(
        std::string(name),
        [self = shared_from_this(), body](const Arguments& arguments) { return body(*self, arguments); }));
  };
  if (name == "cycle") return method([](Loop& loop, const Arguments& given) { return loop.cycle(given); });
  if (name == "changed") return method([](Loop& loop, const Arguments& given) { return loop.changed(given); });
  return std::nullopt;
}

Value Loop::cycle(const Arguments& arguments) const {
  if (!arguments.named.empty() || arguments.positional.empty()) throw Refused("no items for cycling given");
  return arguments.positional[static_cast<std::size_t>(index_) % arguments.positional.size()];
}

Value Loop::changed(const Arguments& arguments) {
  if (!arguments.named.empty()) throw Refused("changed() takes no keyword arguments");
  if (last_seen_ && std::ranges::equal(*last_seen_, arguments.positional, are_equal)) return boolean(false);
  last_seen_ = arguments.positional;
  return boolean(true);
}

Value Loop::call(const Arguments& arguments) {
  const BoundArguments bound("loop", arguments, {"iterable"}, 1);
  if (!recurse_) throw Refused("The loop must have the 'recursive' marker to be called recursively.");
  return recurse_(*bound.get(0), depth_ + 1);
}

}  // namespace llmtrain::jinja
