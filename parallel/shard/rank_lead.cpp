// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/rank_lead.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "core/base/error.h"

namespace llmtrain {
namespace {

void broadcast(Communicator& communicator, std::span<std::int64_t> words, int root) {
  // As bytes: messages have no type for integers of 64 bits.
  communicator
      .broadcast(communicator.world(), Purpose::control,
                 Array{words.data(), static_cast<std::int64_t>(words.size_bytes()), ElementType::uint8}, root)
      .wait();
}

}  // namespace

RankLead::RankLead(const RankGroups& groups) {
  if (groups.communicator().size() == 1) return;
  communicator_ = &groups.communicator();
  if (communicator_->size() != groups.tensor.ranks() * groups.pipeline.ranks())
    throw Error(ExitCode::internal_error,
                "ranks of a model that one of them leads may share its layers (tensor) and hold different ones "
                "(pipeline), and nothing else");
  const bool has_logits = groups.pipeline.position() + 1 == groups.pipeline.ranks() && groups.tensor.position() == 0;
  const std::vector<double> all = groups.exchange(std::array{has_logits ? 1.0 : 0.0});
  leader_ = static_cast<int>(std::ranges::find(all, 1.0) - all.begin());
}

std::vector<std::int64_t> RankLead::tell(std::vector<std::int64_t> words) const {
  if (communicator_ == nullptr) return words;
  // Most of what is told is short, and takes one message: its length, and its beginning.
  std::array<std::int64_t, 64> first{};
  constexpr std::size_t room = first.size() - 1;
  if (leads()) {
    first[0] = std::ssize(words);
    std::ranges::copy(std::span(words).first(std::min(room, words.size())), first.begin() + 1);
  }
  broadcast(*communicator_, first, leader_);
  const auto count = static_cast<std::size_t>(first[0]);
  if (!leads()) {
    words.assign(count, 0);
    std::copy_n(first.begin() + 1, std::min(room, count), words.begin());
  }
  if (count > room) broadcast(*communicator_, std::span(words).subspan(room), leader_);
  return words;
}

}  // namespace llmtrain
