// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>

#include "core/model/moe/expert_ranks.h"
#include "parallel/comm/communicator.h"
#include "parallel/layout/layout.h"

namespace llmtrain {

// The ranks that share the experts with this one, which exchange rows by the algorithm that the recipe asks for, or
// that `chooser`, which may be null where nothing is open; linearly where there is no one to relay rows. Collective
// over the world; blocks. The communicator and the chooser must outlive the result.
std::shared_ptr<const ExpertRanks> make_expert_ranks(Communicator& communicator, const Layout& layout,
                                                     const ExchangeChooser* chooser);

// One message to every other rank.
std::shared_ptr<const ExpertRanks> make_linear_exchange(Communicator& communicator, const Group& ranks);

// Rows go in two steps, so that n ranks, m of them on a node, send n ÷ m − 1 messages to other nodes instead of n − m
// (2DH: Hwang et al., arXiv 2206.03382, section 3.4): to the rank of this node that has the same place on its node as
// the rank of the expert, with rows for all nodes, and from there to that rank, with rows of all ranks of this node. On
// the way back the steps are reversed. The results are those of the linear exchange.
// `inside`: the ranks of this node; `across`: those with the same place on other nodes, by node. Consecutive ranks are
// on a node, the position of rank j of node b being b · m + j.
std::shared_ptr<const ExpertRanks> make_hierarchical_exchange(Communicator& communicator, const Group& inside,
                                                              const Group& across);

// Either of them: numbers of rows go hierarchically while `chooser` may relay, and rows as their numbers say. The
// chooser must outlive the result.
std::shared_ptr<const ExpertRanks> make_chosen_exchange(std::shared_ptr<const ExpertRanks> linear,
                                                        std::shared_ptr<const ExpertRanks> hierarchical,
                                                        const ExchangeChooser& chooser);

}  // namespace llmtrain
