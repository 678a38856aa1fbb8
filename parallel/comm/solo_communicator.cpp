// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/solo_communicator.h"

#include <utility>

#include "core/base/error.h"

namespace llmtrain {
namespace {

class SoloCommunicator final : public Communicator {
 public:
  SoloCommunicator() : Communicator(0, 1) { set_world(make_group("world", {0})); }

  void abort(ExitCode code, const std::string& message) override { failure_.set({rank(), code, message}); }
  std::optional<Failure> failure() const override { return failure_.get(); }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position,
                                           GroupUse) override {
    return std::make_shared<Group::State>(name, std::move(ranks), position);
  }
  // Collectives of one rank complete without a backend: only messages get here.
  std::shared_ptr<PendingOperation> start(Request request) override {
    if (failure_.is_set()) failure_.raise(rank());
    throw Error(ExitCode::internal_error, request.description() + ": there is no other rank");
  }

  FailureNote failure_;
};

}  // namespace

std::shared_ptr<Communicator> make_solo_communicator() { return std::make_shared<SoloCommunicator>(); }

}  // namespace llmtrain
