// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <list>
#include <map>
#include <string>

#include "parallel/comm/backend.h"

namespace llmtrain {

// Short control messages between all ranks, independent of their operations: that a rank has failed, and which
// operation it ran last. Calls must be serialised.
class ControlChannel {
 public:
  // Notes that come in set `failure`; `log` answers which operation this rank ran last.
  ControlChannel(int rank, int size, FailureNote& failure, const OperationLog& log);
  // Stops receiving. Must not be called while MPI still uses memory that has been released.
  void close() noexcept;

  // Handles incoming notes and completes outgoing ones. Does not block.
  void progress();
  // Send a failure to all ranks, and ask a rank for its last operation. Notes are short enough that MPI sends them
  // eagerly, without progress().
  void report_failure(const Failure& failure);
  void ask(int rank);
  bool is_sending() const { return !leaving_.empty(); }
  // The answers received so far, by rank.
  const std::map<int, std::string>& answers() const { return answers_; }

 private:
  enum class Kind : int { failure, question, answer };
  struct Note {
    Kind kind = Kind::question;
    int rank = 0;
    int code = 0;
    char text[2000] = {};  // fixed size, so that one posted receive fits every note
  };
  struct Leaving {
    Note note;
    MPI_Request request = MPI_REQUEST_NULL;
  };

  void listen();
  void read(const Note& note);
  void send(int rank, const Note& note);
  Note make_note(Kind kind, const std::string& text) const;

  int rank_;
  int size_;
  FailureNote& failure_;
  const OperationLog& log_;
  MPI_Comm communicator_;
  Note incoming_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::list<Leaving> leaving_;  // MPI reads a note until its send completes, so it must not move
  std::map<int, std::string> answers_;
};

}  // namespace llmtrain
