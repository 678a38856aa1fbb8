// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/functions/dictionary_view.h"

#include <algorithm>

#include "core/jinja/values/python_text.h"
#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {

std::string DictionaryView::type() const {
  switch (part_) {
    case Part::keys:
      return "dict_keys";
    case Part::values:
      return "dict_values";
    case Part::items:
      return "dict_items";
  }
  return "";
}

std::vector<Value> DictionaryView::elements() const {
  std::vector<Value> values;
  for (const auto& [key, value] : dictionary_.entries->pairs)
    values.push_back(part_ == Part::keys ? key : part_ == Part::values ? value : tuple({key, value}));
  return values;
}

std::string DictionaryView::repr() const { return type() + "(" + jinja::repr(list(elements())) + ")"; }

std::unique_ptr<Iterator> DictionaryView::iterate() { return iterator_over(elements()); }

std::unique_ptr<Iterator> DictionaryView::iterate_backwards() {
  auto values = elements();
  std::ranges::reverse(values);
  return iterator_over(std::move(values));
}

bool DictionaryView::equals(const Object& other) const {
  if (this == &other) return true;
  if (part_ == Part::values || !dynamic_cast<const DictionaryView*>(&other)) return false;
  throw Refused("comparing keys() or items() of dictionaries is not supported: compare the dictionaries");
}

}  // namespace llmtrain::jinja
