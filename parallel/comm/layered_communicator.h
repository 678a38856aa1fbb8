// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "parallel/comm/communicator.h"

namespace llmtrain {

// A layer's group, with the same group of the host below it.
struct LayerGroup : Group::State {
  explicit LayerGroup(Group given) : State(given.name(), given.ranks(), given.position()), host(std::move(given)) {}
  const Group host;
};

// A communicator that executes some operations itself and passes the others on to a communicator of the same rank, its
// host, which also handles failures. Both share one log.
class LayeredCommunicator : public Communicator {
 public:
  void abort(ExitCode code, const std::string& message) override { host_->abort(code, message); }
  std::optional<Failure> failure() const override { return host_->failure(); }

 protected:
  explicit LayeredCommunicator(std::shared_ptr<Communicator> host)
      : Communicator(SameRank{*host}), host_(std::move(host)) {}

  const std::shared_ptr<Communicator>& host() const { return host_; }
  // Throws the failure that ended the ranks, if there is one.
  void raise_if_failed() const {
    if (const std::optional<Failure> known = failure()) raise_failure(*known, rank());
  }
  // The request with the host's group.
  static Request host_request(Request request) {
    request.group = static_cast<LayerGroup&>(request.group.state()).host;
    return request;
  }

 private:
  std::shared_ptr<Communicator> host_;
};

}  // namespace llmtrain
