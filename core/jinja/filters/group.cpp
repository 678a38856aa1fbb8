// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/filters/group.h"

#include "core/jinja/values/comparison.h"
#include "core/jinja/values/object.h"
#include "core/jinja/values/python_text.h"

namespace llmtrain::jinja {
namespace {

class Group : public Object {
 public:
  Group(Value grouper, Value list) : parts_(tuple({std::move(grouper), std::move(list)})) {}

  std::string type() const override { return "_GroupTuple"; }
  std::string repr() const override { return jinja::repr(parts_); }
  std::optional<std::size_t> length() const override { return 2; }
  std::unique_ptr<Iterator> iterate() override { return jinja::iterate(parts_); }
  std::unique_ptr<Iterator> iterate_backwards() override { return jinja::iterate_backwards(parts_); }
  std::optional<Value> attribute(std::string_view name) override {
    if (name == "grouper") return part(0);
    if (name == "list") return part(1);
    return std::nullopt;
  }
  std::optional<Value> element(std::int64_t index) const override {
    if (index < 0) index += 2;
    if (index < 0 || index > 1) return std::nullopt;
    return part(static_cast<std::size_t>(index));
  }
  bool has_elements() const override { return true; }
  bool equals(const Object& other) const override {
    const auto* group = dynamic_cast<const Group*>(&other);
    return group && are_equal(parts_, group->parts_);
  }
  int depth() const override { return depth_of(parts_); }

 private:
  const Value& part(std::size_t index) const { return (*elements_of(parts_))[index]; }

  Value parts_;
};

}  // namespace

Value make_group(Value grouper, Value list) {
  return object(std::make_shared<Group>(std::move(grouper), std::move(list)));
}

}  // namespace llmtrain::jinja
