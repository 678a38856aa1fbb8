// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/control_channel.h"

#include "parallel/comm/mpi/mpi_messages.h"

namespace llmtrain {

ControlChannel::ControlChannel(int rank, int size, FailureNote& failure, const OperationLog& log)
    : rank_(rank),
      size_(size),
      failure_(failure),
      log_(log),
      communicator_(copy_of_world("create the control channel")) {
  listen();
}

// One receive from any source is always posted, so that a note never waits for the receiver.
void ControlChannel::listen() {
  check_mpi(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, 0, communicator_, &request_), "listen");
}

void ControlChannel::close() noexcept {
  if (request_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&request_);
  // MPI_Cancel() only marks the receive; MPI requires that it is completed before MPI_Finalize().
  MPI_Wait(&request_, MPI_STATUS_IGNORE);
}

void ControlChannel::progress() {
  int has_come = 1;
  while (true) {
    check_mpi(MPI_Test(&request_, &has_come, MPI_STATUS_IGNORE), "listen");
    if (has_come == 0) break;
    // Copied first: the next receive reuses the buffer, and reading a note may send an answer.
    const Note note = incoming_;
    listen();
    read(note);
  }
  const auto has_left = [](Leaving& leaving) {
    int done = 0;
    check_mpi(MPI_Test(&leaving.request, &done, MPI_STATUS_IGNORE), "send a note");
    return done != 0;
  };
  leaving_.remove_if(has_left);
}

void ControlChannel::read(const Note& note) {
  switch (note.kind) {
    case Kind::failure:
      failure_.set({note.rank, static_cast<ExitCode>(note.code), note.text});
      break;
    case Kind::question:
      send(note.rank, make_note(Kind::answer, log_.last_operation()));
      break;
    case Kind::answer:
      answers_[note.rank] = note.text;
      break;
  }
}

ControlChannel::Note ControlChannel::make_note(Kind kind, const std::string& text) const {
  Note note;
  note.kind = kind;
  note.rank = rank_;
  // Longer texts are truncated; notes are zero-initialised, so the text is always terminated.
  text.copy(note.text, sizeof note.text - 1);
  return note;
}

void ControlChannel::send(int rank, const Note& note) {
  Leaving& leaving = leaving_.emplace_back(Leaving{note});
  check_mpi(MPI_Isend(&leaving.note, sizeof leaving.note, MPI_BYTE, rank, 0, communicator_, &leaving.request),
            "send a note");
}

void ControlChannel::report_failure(const Failure& failure) {
  Note note = make_note(Kind::failure, failure.message);
  note.code = static_cast<int>(failure.code);
  for (int rank = 0; rank < size_; ++rank) {
    if (rank != rank_) send(rank, note);
  }
}

void ControlChannel::ask(int rank) { send(rank, make_note(Kind::question, "")); }

}  // namespace llmtrain
