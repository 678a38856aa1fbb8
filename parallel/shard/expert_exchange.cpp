// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/expert_exchange.h"

#include <cstdint>
#include <utility>
#include <vector>

namespace llmtrain {
namespace {

class ChosenExchange final : public ExpertRanks {
 public:
  ChosenExchange(std::shared_ptr<const ExpertRanks> linear, std::shared_ptr<const ExpertRanks> hierarchical,
                 const ExchangeChooser& chooser)
      : linear_(std::move(linear)), hierarchical_(std::move(hierarchical)), chooser_(chooser) {}

  std::int64_t ranks() const override { return linear_->ranks(); }

  RowNumbers exchange_numbers(std::vector<std::int64_t> own) const override {
    // Which method is taken follows from the numbers, so they are exchanged for relaying wherever one of the methods
    // does.
    return (chooser_.may_relay() ? hierarchical_ : linear_)->exchange_numbers(std::move(own));
  }

  std::unique_ptr<RowTransfer> start_exchange(RowsWay way, const at::Tensor& rows, const RowNumbers& numbers,
                                              const at::Tensor& result) const override {
    return (numbers.relayed.empty() ? linear_ : hierarchical_)->start_exchange(way, rows, numbers, result);
  }

 private:
  std::shared_ptr<const ExpertRanks> linear_, hierarchical_;
  const ExchangeChooser& chooser_;
};

}  // namespace

std::shared_ptr<const ExpertRanks> make_chosen_exchange(std::shared_ptr<const ExpertRanks> linear,
                                                        std::shared_ptr<const ExpertRanks> hierarchical,
                                                        const ExchangeChooser& chooser) {
  return std::make_shared<ChosenExchange>(std::move(linear), std::move(hierarchical), chooser);
}

std::shared_ptr<const ExpertRanks> make_expert_ranks(Communicator& communicator, const Layout& layout,
                                                     const ExchangeChooser* chooser) {
  const Mesh& mesh = layout.mesh();
  const auto group = [&](const char* name, GroupKind kind) {
    return communicator.make_group(name, group_members(mesh, kind, communicator.rank()));
  };
  const auto linear = [&] { return make_linear_exchange(communicator, group("expert", GroupKind::expert)); };
  const auto hierarchical = [&] {
    const Group inside = group("expert, inside nodes", GroupKind::expert_inside);
    return make_hierarchical_exchange(communicator, inside, group("expert, across nodes", GroupKind::expert_across));
  };
  switch (layout.recipe().parallel.expert_all_to_all) {
    case AllToAll::linear:
      return linear();
    case AllToAll::hierarchical:
      // Two steps, one of them with every rank alone, would copy all rows and bring nothing nearer; plans count one.
      return can_relay_rows(mesh) ? hierarchical() : linear();
    case AllToAll::automatic: {
      if (chooser == nullptr || !can_relay_rows(mesh)) return linear();
      auto direct = linear();
      return make_chosen_exchange(std::move(direct), hierarchical(), *chooser);
    }
  }
  return nullptr;
}

}  // namespace llmtrain
