// SPDX-License-Identifier: Apache-2.0
#include "core/data/validation_sets.h"

namespace llmtrain {

std::vector<ValidationSources> validation_sets(const std::vector<DataSource>& validation) {
  if (validation.empty()) return {};
  if (!are_named_sets(validation)) return {{"", validation, 0}};
  std::vector<ValidationSources> sets;
  for (const DataSource& source : validation) sets.push_back({source.name.value_or(""), {source}, sets.size()});
  return sets;
}

}  // namespace llmtrain
