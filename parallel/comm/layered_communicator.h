// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// What a layer keeps of a group beside its own things: the same group of the host.
struct LayerGroup : Group::State {
  explicit LayerGroup(Group given) : State(given.name(), given.ranks(), given.position()), host(std::move(given)) {}
  const Group host;
};

// A rank that does some operations in a way of its own, and hands the others to a communicator of the same rank, its
// host, which also tells of failures. Both have one log.
class LayeredCommunicator : public Communicator {
 public:
  void abort(ExitCode code, const std::string& message) override { host_->abort(code, message); }
  std::optional<Failure> failure() const override { return host_->failure(); }

 protected:
  explicit LayeredCommunicator(std::shared_ptr<Communicator> host)
      : Communicator(SameRank{*host}), host_(std::move(host)) {}

  const std::shared_ptr<Communicator>& host() const { return host_; }
  // Throws what has taken the ranks down, if anything has.
  void raise_if_failed() const {
    if (const std::optional<Failure> known = failure()) raise_failure(*known, rank());
  }
  // The request as the host takes it.
  static Request host_request(Request request) {
    request.group = static_cast<LayerGroup&>(request.group.state()).host;
    return request;
  }

 private:
  std::shared_ptr<Communicator> host_;
};

}  // namespace llmtrain
