// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/mpi_world.h"

#include <mpi.h>

#include <cstdlib>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "parallel/comm/mpi/join_watchdog.h"
#include "parallel/comm/mpi/mpi_engine.h"
#include "parallel/comm/mpi/mpi_messages.h"
#include "parallel/comm/mpi/mpi_steps.h"

namespace llmtrain {
namespace {

// Collectives of one group that may be in flight before two of them share a number. MpiLane derives two tags from each
// number; tag 0 is for messages. MPI promises tags up to 32,767 alone (MPI_TAG_UB); Open MPI has at least 2²³ − 1, with
// UCX.
constexpr int lanes = 1 << 20;

struct MpiGroup : Group::State {
  using State::State;
  // Not freed before MPI_Finalize(): MPI_Comm_free() is collective, and the members drop their groups at different
  // times.
  MPI_Comm communicator = MPI_COMM_NULL;
  std::uint64_t started = 0;  // number of collectives that this rank has started
};

MPI_Comm communicator_of(const std::vector<int>& ranks) {
  MPI_Group world = MPI_GROUP_NULL, members = MPI_GROUP_NULL;
  MPI_Comm communicator = MPI_COMM_NULL;
  check_mpi(MPI_Comm_group(MPI_COMM_WORLD, &world), "create a group");
  check_mpi(MPI_Group_incl(world, static_cast<int>(ranks.size()), ranks.data(), &members), "create a group");
  // Unlike MPI_Comm_split(), this is collective over the members only: other ranks need not take part.
  check_mpi(MPI_Comm_create_group(MPI_COMM_WORLD, members, 0, &communicator), "create a group");
  check_mpi(MPI_Comm_set_errhandler(communicator, MPI_ERRORS_RETURN), "set an error handler");
  // The communicator holds references of its own.
  MPI_Group_free(&members);
  MPI_Group_free(&world);
  return communicator;
}

// Initialises MPI unless that was done already, and finalises it if so, except after a failure (leave_open()).
class MpiSession {
 public:
  explicit MpiSession(double watchdog_seconds) {
    int is_running = 0;
    MPI_Initialized(&is_running);
    int provided = MPI_THREAD_SINGLE;
    // A host program may have initialised MPI: then it also finalises it.
    if (is_running != 0) {
      MPI_Query_thread(&provided);
    } else {
      // MPI itself blocks when it starts and ends: ranks that share a core should yield it there too.
      setenv("OMPI_MCA_mpi_yield_when_idle", "1", 0);
      const JoinWatchdog watchdog(watchdog_seconds);
      // Not MPI_THREAD_MULTIPLE, with which MPI locks in each of its calls: the engine's mutex does so once for all.
      if (MPI_Init_thread(nullptr, nullptr, MPI_THREAD_SERIALIZED, &provided) != MPI_SUCCESS)
        throw Error(ExitCode::internal_error, "MPI cannot start: see its messages above");
      is_owner_ = true;
    }
    if (provided < MPI_THREAD_SERIALIZED) {
      throw Error(ExitCode::internal_error,
                  "this MPI does not provide MPI_THREAD_SERIALIZED, which overlapping communication with computation "
                  "requires: use Open MPI 4.1 or another MPI that does");
    }
    MPI_Comm_rank(MPI_COMM_WORLD, &rank_);
    MPI_Comm_size(MPI_COMM_WORLD, &size_);
  }
  ~MpiSession() {
    if (is_owner_) MPI_Finalize();
  }
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
  MpiCommunicator(std::unique_ptr<MpiSession> session, const MpiOptions& options)
      : Communicator(session->rank(), session->size()), session_(std::move(session)) {
    std::vector<int> all(static_cast<std::size_t>(size()));
    std::iota(all.begin(), all.end(), 0);
    meeting_ = copy_of_world("create a communicator");
    auto world = std::make_shared<MpiGroup>("world", std::move(all), rank());
    world->communicator = copy_of_world("create a communicator");
    // From here on the engine's thread calls MPI too.
    engine_ = std::make_shared<MpiEngine>(rank(), size(), options, shared_log());
    set_world(Group(world));
  }
  ~MpiCommunicator() override {
    engine_->stop();
    // MPI_Finalize() waits for all ranks, and after a failure some may never get there.
    if (engine_->failure().is_set() || engine_->is_frozen()) session_->leave_open();
  }

  void abort(ExitCode code, const std::string& message) override { engine_->fail({rank(), code, message}); }
  std::optional<Failure> failure() const override { return engine_->failure().get(); }

 private:
  std::shared_ptr<Group::State> join_group(const std::string& name, std::vector<int> ranks, int position,
                                           GroupUse) override {
    engine_->raise_if_failed();
    // Watched by the watchdog; once all members are here, creating the communicator does not have to wait long.
    meet(name, ranks, position);
    auto group = std::make_shared<MpiGroup>(name, std::move(ranks), position);
    engine_->in_mpi([&] { group->communicator = communicator_of(group->ranks()); });
    log().add_connection(ConnectionKind::mpi);
    return group;
  }

  std::shared_ptr<PendingOperation> start(Request request) override {
    request.require_host_memory();
    engine_->raise_if_failed();
    auto& group = static_cast<MpiGroup&>(request.group.state());
    // Messages share one tag and rely on MPI's ordering between two ranks;
    // collectives in flight need tags of their own.
    const MpiLane lane{group.communicator, request.is_message() ? 0 : static_cast<int>(group.started++ % lanes)};
    const OperationLog::Entry entry = shared_log()->start(request);
    auto operation = std::make_shared<MpiOperation>(engine_, request, shared_log(), entry);
    engine_->start(operation, [&] { return start_steps(request, lane); });
    return operation;
  }

  void meet(const std::string& name, const std::vector<int>& ranks, int position) {
    Request request;
    request.collective = Collective::barrier;
    request.group = Group(std::make_shared<Group::State>(name, ranks, position));
    // Creating a group is not part of a plan, so it is counted in a temporary log.
    auto log = std::make_shared<OperationLog>();
    const OperationLog::Entry entry = log->start(request);
    auto operation = std::make_shared<MpiOperation>(engine_, request, std::move(log), entry);
    engine_->start(operation, [&] { return start_meeting(ranks, position, meeting_); });
    operation->wait();
  }

  std::unique_ptr<MpiSession> session_;
  // Members of a new group meet here first: creating its communicator blocks inside MPI, where no watchdog applies.
  MPI_Comm meeting_ = MPI_COMM_NULL;
  std::shared_ptr<MpiEngine> engine_;
};

}  // namespace

std::unique_ptr<Communicator> join_mpi_world(const MpiOptions& options) {
  return std::make_unique<MpiCommunicator>(std::make_unique<MpiSession>(options.watchdog_seconds), options);
}

}  // namespace llmtrain
