// SPDX-License-Identifier: Apache-2.0
// The suite as one rank of an MPI world: all ranks run the same cases in the same order.
#include <cstdio>
#include <memory>
#include <stdexcept>

#include "parallel/comm/mpi/mpi_world.h"
#include "tests/parallel/comm/rank_harness.h"
#include "tests/support/catch_runner.h"

namespace llmtrain::test {
namespace {

std::shared_ptr<Communicator>& communicator() {
  static std::shared_ptr<Communicator> world;
  return world;
}

}  // namespace

std::vector<int> rank_counts() { return {communicator()->size()}; }

void on_ranks(int ranks, const std::function<void(Communicator&)>& work) {
  if (ranks != communicator()->size()) throw std::runtime_error("the MPI world has another size");
  try {
    work(*communicator());
  } catch (const std::exception& error) {
    communicator()->abort(ExitCode::internal_error, error.what());
    throw;
  }
  communicator()->barrier(communicator()->world()).wait();
}

void expect(bool condition, const std::string& message) {
  if (!condition) throw std::runtime_error(message);
}

}  // namespace llmtrain::test

int main(int count, char* arguments[]) {
  llmtrain::test::communicator() = llmtrain::test::with_layer(llmtrain::join_mpi_world({.watchdog_seconds = 60}));
  const int failures = llmtrain::test::run_test_cases(count, arguments);
  const std::weak_ptr<llmtrain::Communicator> remains = llmtrain::test::communicator();
  llmtrain::test::communicator().reset();
  // It would never leave MPI.
  if (!remains.expired()) std::fprintf(stderr, "a communicator outlives its owner\n");
  return failures == 0 && remains.expired() ? 0 : 1;
}
