// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/same_recipe.h"

#include <cstdint>
#include <string>

#include "core/base/error.h"
#include "core/recipe/recipe_io.h"
#include "parallel/comm/agreement.h"

namespace llmtrain {
namespace {

// The first key whose value differs, as a JSON pointer.
std::string first_difference(const nlohmann::json& own, const nlohmann::json& other) {
  const nlohmann::json steps = nlohmann::json::diff(other, own);
  return steps.empty() ? "" : steps.front().at("path").get<std::string>();
}

}  // namespace

void check_same_recipe(Communicator& communicator, const Recipe& recipe) {
  // Compared as text with every default, so that any difference that could matter is found.
  const std::string own = to_json(recipe).dump();
  const std::string first = share_text(communicator, own);
  // 0 means no difference, since rank 0 cannot differ from itself. The maximum picks one rank for the message.
  std::int32_t differing = own == first ? 0 : communicator.rank();
  communicator.all_reduce(communicator.world(), Purpose::control, {&differing, 1, ElementType::int32}, Reduction::max)
      .wait();
  if (differing == 0) return;
  const std::string key = first_difference(nlohmann::json::parse(own), nlohmann::json::parse(first));
  throw Error(ExitCode::bad_recipe, share_text(communicator, key, differing) + ": rank " + std::to_string(differing) +
                                        " has another value than the first rank; start all ranks with the same "
                                        "recipe and flags");
}

}  // namespace llmtrain
