// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/group.h"

#include <utility>

namespace llmtrain {
namespace {

// Keeps messages readable in worlds of thousands of ranks.
constexpr std::size_t shown_ranks = 16;

}  // namespace

Group::State::State(std::string given_name, std::vector<int> given_ranks, int given_position)
    : name(std::move(given_name)), ranks(std::move(given_ranks)), position(given_position) {}

Group::State::~State() = default;

std::string Group::description() const {
  std::string text = name() + " [";
  for (std::size_t i = 0; i < ranks().size(); ++i) {
    if (i == shown_ranks) return text + " …]";
    if (i > 0) text += ' ';
    text += std::to_string(ranks()[i]);
  }
  return text + "]";
}

}  // namespace llmtrain
