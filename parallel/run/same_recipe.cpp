// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/same_recipe.h"

#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/recipe/recipe_io.h"
#include "parallel/comm/agreement.h"

namespace llmtrain {
namespace {

// The first key whose value is another one, as a JSON pointer.
std::string first_difference(const nlohmann::json& own, const nlohmann::json& other) {
  const nlohmann::json steps = nlohmann::json::diff(other, own);
  return steps.empty() ? "" : steps.front().at("path").get<std::string>();
}

}  // namespace

void check_same_recipe(Communicator& communicator, const Recipe& recipe) {
  const std::string own = to_json(recipe).dump();
  const std::string first = share_text(communicator, own);
  // The first rank cannot differ from itself.
  std::int32_t differing = own == first ? 0 : communicator.rank();
  communicator.all_reduce(communicator.world(), Purpose::control, {&differing, 1, ElementType::int32}, Reduction::max)
      .wait();
  if (differing == 0) return;
  const std::string key = first_difference(nlohmann::json::parse(own), nlohmann::json::parse(first));
  throw Error(ExitCode::bad_recipe, share_text(communicator, key, differing) + ": rank " + std::to_string(differing) +
                                        " has not what the first rank's recipe says; start all ranks with the same "
                                        "recipe and flags");
}

}  // namespace llmtrain
