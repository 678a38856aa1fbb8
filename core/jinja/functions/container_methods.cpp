// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/functions/container_methods.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>

#include "core/jinja/functions/dictionary_view.h"
#include "core/jinja/functions/native_function.h"
#include "core/jinja/values/comparison.h"
#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {
namespace {

using ContainerMethod = Value (*)(const Value&, const Arguments&);

Value view_of(const Value& self, const Arguments& arguments, DictionaryView::Part part) {
  const BoundArguments bound("keys", arguments, {});
  return object(std::make_shared<DictionaryView>(*self.as<Dictionary>(), part));
}

Value keys(const Value& self, const Arguments& arguments) {
  return view_of(self, arguments, DictionaryView::Part::keys);
}

Value values(const Value& self, const Arguments& arguments) {
  return view_of(self, arguments, DictionaryView::Part::values);
}

Value items(const Value& self, const Arguments& arguments) {
  return view_of(self, arguments, DictionaryView::Part::items);
}

Value get(const Value& self, const Arguments& arguments) {
  const BoundArguments bound("get", arguments, {"key", "default"}, 1, false);
  check_is_hashable(*bound.get(0));
  if (const Value* found = find(*self.as<Dictionary>(), *bound.get(0))) return *found;
  return bound.get(1) ? *bound.get(1) : none();
}

Value copy(const Value& self, const Arguments& arguments) {
  const BoundArguments bound("copy", arguments, {});
  return self;
}

Value count(const Value& self, const Arguments& arguments) {
  const BoundArguments bound("count", arguments, {"value"}, 1, false);
  return integer(
      std::ranges::count_if(*elements_of(self), [&](const Value& each) { return are_equal(each, *bound.get(0)); }));
}

Value index(const Value& self, const Arguments& arguments) {
  const BoundArguments bound("index", arguments, {"value"}, 1, false);
  const auto& elements = *elements_of(self);
  const auto found = std::ranges::find_if(elements, [&](const Value& each) { return are_equal(each, *bound.get(0)); });
  if (found == elements.end()) throw Refused(repr(*bound.get(0)) + " is not in list");
  return integer(found - elements.begin());
}

constexpr std::pair<std::string_view, ContainerMethod> list_methods[] = {
    {"copy", copy}, {"count", count}, {"index", index}};
constexpr std::pair<std::string_view, ContainerMethod> tuple_methods[] = {{"count", count}, {"index", index}};
constexpr std::pair<std::string_view, ContainerMethod> dictionary_methods[] = {
    {"copy", copy}, {"get", get}, {"items", items}, {"keys", keys}, {"values", values}};

template <std::size_t count>
ContainerMethod find_method(const std::pair<std::string_view, ContainerMethod> (&methods)[count],
                            std::string_view name) {
  const auto* found = std::ranges::find(methods, name, [](const auto& each) { return each.first; });
  return found == std::end(methods) ? nullptr : found->second;
}

}  // namespace

std::optional<Value> container_method(const Value& container, std::string_view name) {
  if (container.is<Dictionary>() && name == "fromkeys") throw Refused("the method fromkeys() is not supported");
  const ContainerMethod method = container.is<Dictionary>() ? find_method(dictionary_methods, name)
                                 : container.is<List>()     ? find_method(list_methods, name)
                                                            : find_method(tuple_methods, name);
  if (!method) return std::nullopt;
  return object(std::make_shared<NativeFunction>(
      std::string(name), [container, method](const Arguments& arguments) { return method(container, arguments); },
      depth_of(container)));
}

bool changes_container(const Value& container, std::string_view name) {
  static constexpr std::array<std::string_view, 8> of_lists = {"append", "clear", "pop",    "reverse",
                                                               "insert", "sort",  "extend", "remove"};
  static constexpr std::array<std::string_view, 5> of_dictionaries = {"clear", "pop", "popitem", "setdefault",
                                                                      "update"};
  if (container.is<List>()) return std::ranges::find(of_lists, name) != of_lists.end();
  return container.is<Dictionary>() && std::ranges::find(of_dictionaries, name) != of_dictionaries.end();
}

}  // namespace llmtrain::jinja
