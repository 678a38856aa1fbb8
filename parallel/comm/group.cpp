// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/group.h"

#include <utility>

namespace llmtrain {
namespace {

constexpr std::size_t shown_ranks = 16;

}  // namespace

std::vector<int> strided_ranks(int rank, std::int64_t ranks, std::int64_t stride) {
  const std::int64_t first = rank - rank / stride % ranks * stride;
  std::vector<int> result;
  for (std::int64_t position = 0; position < ranks; ++position)
    result.push_back(static_cast<int>(first + position * stride));
  return result;
}

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
