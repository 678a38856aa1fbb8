// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout/scalar_table.h"

#include <utility>

#include "core/base/error.h"

namespace llmtrain {

void ScalarTable::declare(std::string name, Combination combination, std::size_t count) {
  const auto [place, is_new] = entries_.try_emplace(std::move(name), Entry{combination, numbers_, count});
  if (!is_new)
    throw Error(ExitCode::internal_error, "the scalar \"" + place->first + "\" of a step is declared a second time");
  numbers_ += count;
}

const ScalarTable::Entry& ScalarTable::at(std::string_view name) const {
  const auto place = entries_.find(name);
  if (place == entries_.end())
    throw Error(ExitCode::internal_error, "the scalar \"" + std::string(name) + "\" of a step is not declared");
  return place->second;
}

}  // namespace llmtrain
