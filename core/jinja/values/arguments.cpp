// SPDX-License-Identifier: Apache-2.0
#include "core/jinja/values/arguments.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>

#include "core/jinja/values/refused.h"

namespace llmtrain::jinja {

BoundArguments::BoundArguments(std::string_view function, const Arguments& arguments,
                               std::initializer_list<std::string_view> parameters, std::size_t required,
                               bool takes_names)
    : function_(function), values_(parameters.size()) {
  if (arguments.positional.size() > parameters.size())
    throw Refused(fmt::format("{}() takes at most {} arguments, {} were given", function, parameters.size(),
                              arguments.positional.size()));
  std::ranges::copy(arguments.positional, values_.begin());
  for (const auto& [name, value] : arguments.named) {
    const auto* place = std::ranges::find(parameters, name);
    if (place == parameters.end() || !takes_names)
      throw Refused(fmt::format("{}() has no argument named \"{}\"", function, name));
    auto& bound = values_[static_cast<std::size_t>(place - parameters.begin())];
    if (bound) throw Refused(fmt::format("{}() is given its argument \"{}\" twice", function, name));
    bound = value;
  }
  for (std::size_t index = 0; index < required; ++index) {
    if (!values_[index])
      throw Refused(fmt::format("{}() lacks its argument \"{}\"", function, parameters.begin()[index]));
  }
}

const Value* BoundArguments::get(std::size_t parameter) const {
  return values_[parameter] ? &*values_[parameter] : nullptr;
}

bool BoundArguments::is_given(std::size_t parameter) const {
  return values_[parameter] && !values_[parameter]->is<None>();
}

std::int64_t BoundArguments::integer(std::size_t parameter, std::int64_t otherwise) const {
  return values_[parameter] ? integer_of(*values_[parameter], function_ + "()") : otherwise;
}

std::string BoundArguments::text(std::size_t parameter, std::string otherwise) const {
  if (!values_[parameter]) return otherwise;
  const std::string* given = text_of(*values_[parameter]);
  if (!given) throw Refused(fmt::format("{}() takes a text, not {}", function_, type_name(*values_[parameter])));
  return *given;
}

bool BoundArguments::flag(std::size_t parameter, bool otherwise) const {
  return values_[parameter] ? is_true(*values_[parameter]) : otherwise;
}

std::int64_t integer_of(const Value& value, std::string_view what) {
  if (const auto* flag = value.as<bool>()) return *flag ? 1 : 0;
  if (const auto* number = value.as<std::int64_t>()) return *number;
  if (const auto* missing = value.as<Undefined>()) throw Refused(*missing->why);
  throw Refused(fmt::format("{} takes an integer, not {}", what, type_name(value)));
}

}  // namespace llmtrain::jinja
