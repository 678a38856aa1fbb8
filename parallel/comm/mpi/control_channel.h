// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "parallel/comm/failure.h"

namespace llmtrain {

// Short notes between all ranks beside their operations: that one has failed, and what one last did. One thread at a
// time calls it.
class ControlChannel {
 public:
  struct Listener {
    std::function<void(const Failure&)> on_failure;
    std::function<std::string()> answer;  // this rank's last operation
  };
  ControlChannel(int rank, int size, Listener listener);
  // Hears nothing more. Not where messages are under way whose memory has gone.
  void close() noexcept;

  // Reads what has come, and moves on what is leaving.
  void progress();
  // Notes are so short that they leave at once, without progress().
  void tell_failure(const Failure& failure);
  void ask(int rank);
  bool is_sending() const { return !leaving_.empty(); }
  // What ranks have answered so far.
  const std::map<int, std::string>& answers() const { return answers_; }

 private:
  enum class Kind : int { failure, question, answer };
  struct Note {
    Kind kind = Kind::question;
    int rank = 0;
    int code = 0;
    char text[2000] = {};
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
  Listener listener_;
  MPI_Comm communicator_ = MPI_COMM_NULL;
  Note incoming_;
  MPI_Request request_ = MPI_REQUEST_NULL;
  std::vector<std::unique_ptr<Leaving>> leaving_;
  std::map<int, std::string> answers_;
};

}  // namespace llmtrain
