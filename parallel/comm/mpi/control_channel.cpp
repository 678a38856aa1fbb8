// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/mpi/control_channel.h"

#include <algorithm>
#include <utility>

#include "parallel/comm/mpi/mpi_check.h"

namespace llmtrain {

ControlChannel::ControlChannel(int rank, int size, Listener listener)
    : rank_(rank), size_(size), listener_(std::move(listener)) {
  // A communicator of its own, so that control messages cannot match those of operations.
  check_mpi(MPI_Comm_dup(MPI_COMM_WORLD, &communicator_), "create the control channel");
  // MPI's default handler would kill the process before it can report which operation failed.
  check_mpi(MPI_Comm_set_errhandler(communicator_, MPI_ERRORS_RETURN), "set an error handler");
  listen();
}

// One receive from any source is always posted, so that a note never waits for the receiver.
void ControlChannel::listen() {
  check_mpi(MPI_Irecv(&incoming_, sizeof incoming_, MPI_BYTE, MPI_ANY_SOURCE, 0, communicator_, &request_), "listen");
}

void ControlChannel::close() noexcept {
  if (request_ == MPI_REQUEST_NULL) return;
  MPI_Cancel(&request_);
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
  const auto has_left = [](const std::unique_ptr<Leaving>& leaving) {
    int done = 0;
    check_mpi(MPI_Test(&leaving->request, &done, MPI_STATUS_IGNORE), "send a note");
    return done != 0;
  };
  leaving_.erase(std::remove_if(leaving_.begin(), leaving_.end(), has_left), leaving_.end());
}

void ControlChannel::read(const Note& note) {
  switch (note.kind) {
    case Kind::failure:
      listener_.on_failure({note.rank, static_cast<ExitCode>(note.code), note.text});
      break;
    case Kind::question:
      send(note.rank, make_note(Kind::answer, listener_.answer()));
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

// Each note in flight has memory of its own, on the heap, because MPI reads it until the send completes.
void ControlChannel::send(int rank, const Note& note) {
  leaving_.push_back(std::make_unique<Leaving>(Leaving{note}));
  Leaving& leaving = *leaving_.back();
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
