// SPDX-License-Identifier: Apache-2.0
#include "parallel/comm/local/local_world.h"

#include <exception>
#include <mutex>
#include <thread>

#include "parallel/comm/local/local_communicator.h"

namespace llmtrain {

LocalWorld::LocalWorld(int ranks, const LocalOptions& options)
    : shared_(std::make_shared<LocalShared>(ranks, options)) {}

LocalWorld::~LocalWorld() = default;

std::unique_ptr<Communicator> LocalWorld::communicator(int rank) {
  return std::make_unique<LocalCommunicator>(shared_, rank);
}

void LocalWorld::run(const std::function<void(Communicator&)>& work) {
  std::mutex mutex;
  std::exception_ptr first;
  const auto run_rank = [&](int rank) {
    const std::unique_ptr<Communicator> own = communicator(rank);
    const auto keep = [&](ExitCode code, const char* message) {
      {
        const std::lock_guard lock(mutex);
        // Ranks that fail later only report this first failure again.
        if (!first) first = std::current_exception();
      }
      // Wakes the other ranks, which would wait for this one until the watchdog fires.
      own->abort(code, message);
    };
    try {
      work(*own);
    } catch (const Error& error) {
      keep(error.code(), error.what());
    } catch (const std::exception& error) {
      keep(ExitCode::internal_error, error.what());
    }
  };
  std::vector<std::thread> threads;
  for (int rank = 0; rank < shared_->size(); ++rank) threads.emplace_back(run_rank, rank);
  for (std::thread& thread : threads) thread.join();
  if (first) std::rethrow_exception(first);
}

}  // namespace llmtrain
