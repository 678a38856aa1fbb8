// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/plan/derived_data.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

#include "core/base/error.h"
#include "core/recipe/rules/rules.h"

namespace llmtrain::app {
namespace {

// Degrees that share a world's ranks with the data ranks.
constexpr std::array<std::string_view, 3> shared_degrees = {"parallel.tensor", "parallel.pipeline", "parallel.context"};
constexpr std::array<std::string_view, 4> numbers_of_ranks = {"parallel.data", "launch.ranks", "cluster.nodes",
                                                              "cluster.devices_per_node"};

// Sets the key, or all keys of its section.
bool sets(std::string_view item, std::string_view key) {
  const std::string_view set = item.substr(0, item.find('='));
  return set == key || (key.starts_with(set) && key[set.size()] == '.');
}

template <class Keys>
bool set_any(const std::vector<Override>& overrides, const Keys& keys) {
  return std::ranges::any_of(overrides, [&](const Override& item) {
    return std::ranges::any_of(keys, [&](std::string_view key) { return sets(item, key); });
  });
}

// None where the file is no recipe without overrides.
std::optional<ParallelRecipe> degrees_of_file(const std::string& file) {
  try {
    return read_recipe(file, {}).parallel;
  } catch (const Error& error) {
    if (error.code() != ExitCode::bad_recipe) throw;
    return std::nullopt;
  }
}

}  // namespace

PlannedOverrides with_derived_data(const std::string& file, const std::vector<Override>& overrides) {
  PlannedOverrides planned{.all = overrides};
  if (!set_any(overrides, shared_degrees) || set_any(overrides, numbers_of_ranks)) return planned;
  const std::optional<ParallelRecipe> own = degrees_of_file(file);
  if (!own || !own->data) return planned;
  const std::int64_t ranks = ranks_per_replica(*own) * *own->data;
  // One rank has none to share.
  if (ranks == 1) return planned;
  planned.all.emplace_back("parallel.data=auto");
  const ParallelRecipe changed = read_recipe(file, planned.all).parallel;
  const std::int64_t replica = ranks_per_replica(changed);
  if (ranks % replica != 0)
    throw Error(
        ExitCode::bad_recipe,
        fmt::format("{}: /parallel: tensor {} × pipeline {} × context {} does not divide the recipe's {} ranks; "
                    "change one of them, or say how many data ranks there are, as in --set parallel.data=1",
                    file, changed.tensor, changed.pipeline, changed.context, ranks));
  planned.all.back() = fmt::format("parallel.data={}", ranks / replica);
  planned.derives_data = true;
  return planned;
}

}  // namespace llmtrain::app
