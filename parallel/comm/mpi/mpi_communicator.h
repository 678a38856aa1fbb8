// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/communicator.h"
#include "parallel/comm/mpi/mpi_engine.h"

namespace llmtrain {

// Initialises MPI unless that was done already, and finalises it if so, except after a failure (leave_open()).
class MpiSession {
 public:
  MpiSession();
  ~MpiSession();
  MpiSession(const MpiSession&) = delete;
  MpiSession& operator=(const MpiSession&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  void leave_open() { is_owner_ = false; }

 private:
  bool is_owner_ = false;
  int rank_ = 0;
  int size_ = 1;
};

// This process as one rank of its MPI world.
class MpiCommunicator : public Communicator {
 public:
  MpiCommunicator(std::unique_ptr<MpiSession> session, const MpiOptions& options);
  ~MpiCommunicator() override;

  void abort(ExitCode code, const std::string& message) override;
  std::optional<Failure> failure() const override { return engine_->failure().get(); }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position,
                                           GroupUse use) override;
  std::shared_ptr<PendingOperation> start(Request request) override;
  void meet(const std::string& name, const std::vector<int>& ranks, int position);

  std::unique_ptr<MpiSession> session_;
  // Members of a new group meet here first: creating its communicator blocks inside MPI, where no watchdog applies.
  MPI_Comm meeting_ = MPI_COMM_NULL;
  std::shared_ptr<MpiEngine> engine_;
};

}  // namespace llmtrain
