// SPDX-License-Identifier: Apache-2.0
#include "parallel/shard/expert_exchange.h"

namespace llmtrain {

std::shared_ptr<const ExpertRanks> make_expert_ranks(Communicator& communicator, const Layout& layout) {
  const Mesh& mesh = layout.mesh();
  const auto group = [&](const char* name, GroupKind kind) {
    return communicator.make_group(name, group_members(mesh, kind, communicator.rank()));
  };
  switch (layout.recipe().parallel.expert_all_to_all) {
    case AllToAll::linear:
      return make_linear_exchange(communicator, group("expert", GroupKind::expert));
    case AllToAll::hierarchical: {
      const Group inside = group("expert, inside nodes", GroupKind::expert_inside);
      return make_hierarchical_exchange(communicator, inside, group("expert, across nodes", GroupKind::expert_across));
    }
  }
  return nullptr;
}

}  // namespace llmtrain
