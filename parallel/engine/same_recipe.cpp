// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/same_recipe.h"

#include <cstdint>

#include "core/base/error.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain {
namespace {

// The first key whose value is another one, as a JSON pointer.
std::string first_difference(const nlohmann::json& own, const nlohmann::json& other) {
  const nlohmann::json steps = nlohmann::json::diff(other, own);
  return steps.empty() ? "" : steps.front().at("path").get<std::string>();
}

}  // namespace

std::string share_text(Communicator& communicator, const std::string& text) {
  const Group& world = communicator.world();
  auto size = static_cast<std::int64_t>(text.size());
  communicator.broadcast(world, Purpose::control, {&size, 1, ElementType::int64}, 0).wait();
  std::string shared = text;
  shared.resize(static_cast<std::size_t>(size));
  if (size > 0) communicator.broadcast(world, Purpose::control, {shared.data(), size, ElementType::uint8}, 0).wait();
  return shared;
}

void check_same_recipe(Communicator& communicator, const Recipe& recipe) {
  const std::string own = to_json(recipe).dump();
  const std::string first = share_text(communicator, own);
  std::int32_t differs = own == first ? 0 : 1;
  const std::string key =
      differs == 0 ? "" : first_difference(nlohmann::json::parse(own), nlohmann::json::parse(first));
  communicator.all_reduce(communicator.world(), Purpose::control, {&differs, 1, ElementType::int32}).wait();
  if (differs == 0) return;
  throw Error(ExitCode::bad_recipe, (key.empty() ? "another rank's recipe is not the first rank's"
                                                 : key + ": is not what the first rank's recipe says") +
                                        std::string("; start all ranks with the same recipe and flags"));
}

}  // namespace llmtrain
