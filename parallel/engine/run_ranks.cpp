// SPDX-License-Identifier: Apache-2.0
#include "parallel/engine/run_ranks.h"

#include <dlfcn.h>
#include <spdlog/sinks/sink.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <filesystem>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "parallel/comm/local/local_world.h"
#include "parallel/engine/device.h"
#include "parallel/engine/training_loop.h"

namespace llmtrain {
namespace {

// How long a rank that failed listens whether another one has said the same before.
constexpr std::chrono::milliseconds listening{1500}, interval{20};

std::filesystem::path mpi_library() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&mpi_library), &info);
  return std::filesystem::path(info.dli_fname).parent_path() / "libllmtrain_mpi.so";
}

std::unique_ptr<Communicator> join_mpi(double watchdog_seconds) {
  // MPI's own plug-ins look its symbols up globally.
  void* library = ::dlopen(mpi_library().c_str(), RTLD_NOW | RTLD_GLOBAL);
  if (library == nullptr) {
    throw Error(ExitCode::missing_input, std::string("the MPI part cannot be loaded: ") + ::dlerror() +
                                             "; install Open MPI, or set launch.backend to \"local\"");
  }
  using Join = Communicator* (*)(double);
  return std::unique_ptr<Communicator>(
      reinterpret_cast<Join>(::dlsym(library, "llmtrain_join_mpi_world"))(watchdog_seconds));
}

// Tells the other ranks, and people where no other rank has.
ExitCode fail(Communicator& communicator, ExitCode code, const std::string& message) {
  const auto other_failed = [&] {
    const auto failure = communicator.failure();
    return failure && failure->rank != communicator.rank();
  };
  const auto end = std::chrono::steady_clock::now() + listening;
  while (communicator.rank() > 0 && !communicator.failure() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(interval);
  // Before the others hear of it: a launcher ends all ranks as soon as one has ended.
  if (!other_failed())
    log().error("{}{}", communicator.rank() > 0 ? "rank " + std::to_string(communicator.rank()) + ": " : "", message);
  communicator.abort(code, message);
  return code;
}

// The first rank speaks, and hears requests to stop for all.
void follow_first_rank() {
  log().sinks().front()->set_level(spdlog::level::err);
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) std::signal(signal, SIG_IGN);
}

ExitCode run_process(const RunRequest& request) {
  const auto communicator = join_mpi(request.recipe.launch.watchdog_seconds);
  if (communicator->rank() > 0) follow_first_rank();
  try {
    if (communicator->size() != request.launch.ranks) {
      throw Error(ExitCode::bad_recipe, "/launch/ranks: " + request.launch.launcher + " started " +
                                            std::to_string(request.launch.ranks) + " ranks, and MPI knows of " +
                                            std::to_string(communicator->size()) +
                                            "; start them with mpirun, or with srun --mpi=pmix");
    }
    return run_training(request, communicator.get());
  } catch (const Error& error) {
    return fail(*communicator, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(*communicator, ExitCode::internal_error, "out of memory: this machine cannot hold what was asked for");
  } catch (const std::exception& error) {
    return fail(*communicator, ExitCode::internal_error, std::string("internal error: ") + error.what());
  }
}

ExitCode run_threads(const RunRequest& request) {
  LocalOptions options;
  options.watchdog_seconds = request.recipe.launch.watchdog_seconds;
  options.link_delay_microseconds = static_cast<std::int64_t>(request.recipe.launch.link_delay_microseconds);
  options.link_bytes_per_second = request.recipe.launch.link_megabytes_per_second * 1e6;
  LocalWorld world(static_cast<int>(request.launch.ranks), options);
  std::atomic<ExitCode> code{ExitCode::done};
  world.run([&](Communicator& communicator) {
    prepare_rank_thread();
    const ExitCode own = run_training(request, &communicator);
    if (communicator.rank() == 0) code = own;
  });
  return code;
}

}  // namespace

bool has_mpi_part() { return std::filesystem::exists(mpi_library()); }

ExitCode run_ranks(const RunRequest& request) {
  set_verbosity(request.verbosity);
  const bool is_process = request.launch.backend == CommunicationBackend::mpi && request.launch.ranks > 1;
  prepare_process(is_process ? request.launch.ranks_here : request.launch.ranks);
  if (request.launch.ranks == 1) return run_training(request);
  return is_process ? run_process(request) : run_threads(request);
}

}  // namespace llmtrain
