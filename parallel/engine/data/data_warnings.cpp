// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/data/data_warnings.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <iterator>
#include <set>
#include <system_error>

#include "core/base/printable.h"
#include "core/base/units.h"

namespace llmtrain {
namespace {

namespace fs = std::filesystem;

// Which are read in a fraction of a second.
constexpr std::int64_t most_searched = 100'000'000;

struct Role {
  const char* key;
  const std::vector<DataSource>& sources;
  const Dataset& data;
  std::size_t first_source = 0;  // where the key's list has the first of them

  std::string path_of(std::size_t source) const {
    return fmt::format("{}.{}.path: {}", key, first_source + source, printable(sources[source].path));
  }
};

void warn_of_mask(const std::vector<Role>& roles, const DataRecipe& data, std::vector<std::string>& warnings) {
  bool are_indexes = true;
  for (const Role& role : roles) {
    const auto dividers = role.data.dividers(most_searched);
    for (std::size_t i = 0; i < dividers.size(); ++i) {
      are_indexes = are_indexes && dividers[i].are_indexes;
      if (dividers[i].divide) continue;
      const bool is_part = dividers[i].searched == most_searched;
      warnings.push_back(
          dividers[i].are_indexes
              ? fmt::format("{}: its index has one document alone, so that data.document_mask keeps nothing apart",
                            role.path_of(i))
              : fmt::format("{}: none of its {}{} tokens is {}, which ends a document "
                            "(data.document_mask.end_of_text): nothing is kept apart",
                            role.path_of(i), is_part ? "first " : "",
                            format_count(static_cast<double>(dividers[i].searched)), *role.data.document_end()));
    }
  }
  if (are_indexes && data.document_mask->end_of_text)
    warnings.push_back(
        fmt::format("data.document_mask.end_of_text: {} ends no document, as the .idx beside each token "
                    "file says where its documents begin",
                    *data.document_mask->end_of_text));
}

std::set<std::string> files_of(const Dataset& data) {
  std::set<std::string> files;
  for (const auto& paths : data.paths())
    for (const fs::path& path : paths) {
      std::error_code unknown;
      const fs::path named = fs::canonical(path, unknown);
      files.insert(unknown ? path.string() : named.string());
    }
  return files;
}

void warn_of_shared_files(const Dataset& train, const Dataset& validation, std::vector<std::string>& warnings) {
  const std::set<std::string> trained = files_of(train), validated = files_of(validation);
  std::vector<std::string> shared;
  std::ranges::set_intersection(trained, validated, std::back_inserter(shared));
  if (shared.empty()) return;
  const std::string others = shared.size() == 1 ? "" : fmt::format(" and {} more", shared.size() - 1);
  warnings.push_back(
      fmt::format("data.validation: {}{} {} trained on as well, so that the validation loss is not that of "
                  "other texts",
                  printable(shared.front()), others, shared.size() == 1 ? "is" : "are"));
}

}  // namespace

std::vector<std::string> data_warnings(const Recipe& recipe, const RunData& read) {
  const DataRecipe& data = recipe.data;
  const Dataset& train = read.train;
  std::vector<std::string> warnings;
  std::vector<Role> roles{{"data.train", data.train, train}};
  for (const ValidationSet& set : read.validation) {
    roles.push_back({"data.validation", set.sources, set.data, set.first_source});
    warn_of_shared_files(train, set.data, warnings);
  }
  for (const Role& role : roles) {
    const std::vector<LeftOut> left_out = role.data.left_out();
    for (std::size_t i = 0; i < left_out.size(); ++i)
      for (const std::string& sentence : sentences_of(left_out[i], recipe.batch.sequence_length))
        warnings.push_back(role.path_of(i) + ": " + sentence);
  }
  if (data.document_mask) warn_of_mask(roles, data, warnings);
  const auto packed = train.packed();
  const bool shares = std::ranges::any_of(packed, [](const auto& each) { return each.samples < each.documents; });
  if (data.fine_tuning && data.fine_tuning->packing && !shares)
    warnings.push_back(fmt::format("data.fine_tuning.packing: no two documents fit into a sequence of {} tokens",
                                   recipe.batch.sequence_length));
  const auto samples = train.samples_by_source();
  for (std::size_t i = 0; data.curriculum.vocabulary_rarity && i < samples.size(); ++i)
    if (samples[i] == 1)
      warnings.push_back(roles.front().path_of(i) +
                         ": has one sample, of which data.curriculum.vocabulary_rarity makes no order");
  return warnings;
}

}  // namespace llmtrain
