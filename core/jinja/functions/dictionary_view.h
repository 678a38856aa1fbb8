// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "core/jinja/values/object.h"

namespace llmtrain::jinja {

// What keys(), values() and items() of a dictionary return.
class DictionaryView : public Object {
 public:
  enum class Part { keys, values, items };

  DictionaryView(Dictionary dictionary, Part part) : dictionary_(std::move(dictionary)), part_(part) {}

  std::string type() const override;
  std::string repr() const override;
  bool is_true() const override { return !dictionary_.entries->pairs.empty(); }
  std::optional<std::size_t> length() const override { return dictionary_.entries->pairs.size(); }
  std::unique_ptr<Iterator> iterate() override;
  std::unique_ptr<Iterator> iterate_backwards() override;
  bool equals(const Object& other) const override;
  int depth() const override { return dictionary_.entries->depth + 1; }

 private:
  std::vector<Value> elements() const;

  Dictionary dictionary_;
  Part part_;
};

}  // namespace llmtrain::jinja
