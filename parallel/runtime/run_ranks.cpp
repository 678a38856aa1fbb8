// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/run_ranks.h"

#include <spdlog/sinks/sink.h>

#include <atomic>
#include <chrono>
#include <csignal>
#include <memory>
#include <new>
#include <string>
#include <thread>

#include "parallel/comm/local/local_world.h"
#include "parallel/comm/solo_communicator.h"
#include "parallel/device/device.h"
#include "parallel/runtime/parts.h"
#include "parallel/runtime/rank_devices.h"
#include "parallel/runtime/training_loop.h"

namespace llmtrain {
namespace {

// How long a failed rank waits for an earlier failure of another rank, so that only the first one is printed.
constexpr std::chrono::milliseconds listening{1500}, interval{20};

// 0 disables the watchdog: a time longer than any run.
double watchdog_seconds(const RunRequest& request) {
  constexpr double for_ever = 1e9;
  const double seconds = request.recipe().launch.watchdog_seconds;
  return seconds > 0 ? seconds : for_ever;
}

// Reports a failure to the other ranks, and prints it unless another rank has failed first.
ExitCode fail(Communicator& communicator, ExitCode code, const std::string& message) {
  const auto other_failed = [&] {
    const auto failure = communicator.failure();
    return failure && failure->rank != communicator.rank();
  };
  const auto end = std::chrono::steady_clock::now() + listening;
  // The first rank does not wait: it has priority in printing.
  while (communicator.rank() > 0 && !communicator.failure() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(interval);
  // Print before informing the others: a launcher kills all ranks as soon as one has ended.
  if (!other_failed())
    log().error("{}{}", communicator.rank() > 0 ? "rank " + std::to_string(communicator.rank()) + ": " : "", message);
  communicator.abort(code, message);
  return code;
}

// Only the first rank prints progress and handles requests to stop; the others print errors and ignore the signals,
// which launchers send to all processes.
void follow_first_rank() {
  log().sinks().front()->set_level(spdlog::level::err);
  for (const int signal : {SIGUSR1, SIGTERM, SIGINT}) std::signal(signal, SIG_IGN);
}

void check_size(const RunRequest& request, const Communicator& world) {
  if (world.size() == request.launch.ranks) return;
  throw Error(ExitCode::bad_recipe, "/launch/ranks: " + request.launch.launcher + " started " +
                                        std::to_string(request.launch.ranks) + " ranks, but MPI reports " +
                                        std::to_string(world.size()) +
                                        "; start them with mpirun, or with srun --mpi=pmix");
}

// `connected` belongs to the caller, so that it outlives the handling of an error: its destructor would wait for the
// other ranks, which first have to learn of the failure.
ExitCode train_process(const RunRequest& asked, const std::shared_ptr<Communicator>& mpi,
                       std::shared_ptr<Communicator>& connected) {
  check_size(asked, *mpi);
  RunRequest request = asked;
  const c10::Device device = choose_rank_device(request.recipe(), asked.launch.backend, asked.launch.local_rank);
  request.launch.backend = agree_on_backend(*mpi, asked.launch.backend, device);
  connected = connect_devices(mpi, request.launch.backend, device, watchdog_seconds(request));
  return run_training(request, device, *connected);
}

ExitCode run_process(const RunRequest& request) {
  const std::shared_ptr<Communicator> mpi = join_mpi(watchdog_seconds(request));
  if (mpi->rank() > 0) follow_first_rank();
  std::shared_ptr<Communicator> connected;
  try {
    return train_process(request, mpi, connected);
  } catch (const Error& error) {
    return fail(*mpi, error.code(), error.what());
  } catch (const std::bad_alloc&) {
    return fail(*mpi, ExitCode::internal_error, "out of memory: this machine cannot hold what was asked for");
  } catch (const std::exception& error) {
    return fail(*mpi, ExitCode::internal_error, std::string("internal error: ") + error.what());
  }
}

ExitCode run_threads(const RunRequest& request) {
  LocalOptions options;
  options.watchdog_seconds = watchdog_seconds(request);
  options.link_delay_microseconds = static_cast<std::int64_t>(request.recipe().launch.link_delay_microseconds);
  options.link_bytes_per_second = request.recipe().launch.link_megabytes_per_second * 1e6;
  LocalWorld world(static_cast<int>(request.launch.ranks), options);
  std::atomic<ExitCode> code{ExitCode::done};
  world.run([&](Communicator& communicator) {
    prepare_rank_thread();
    const c10::Device device = choose_device(request.recipe().cluster.device, communicator.rank());
    // Not owned: LocalWorld::run() owns the communicator and outlives this call.
    const std::shared_ptr<Communicator> local(&communicator, [](Communicator*) {});
    const auto connected = connect_devices(local, CommunicationBackend::local, device, options.watchdog_seconds);
    const ExitCode own = run_training(request, device, *connected);
    // All ranks return the same code; one of them stores it.
    if (communicator.rank() == 0) code = own;
  });
  return code;
}

ExitCode run_alone(const RunRequest& request) {
  return run_training(request, choose_device(request.recipe().cluster.device), *make_solo_communicator());
}

}  // namespace

ExitCode run_ranks(const RunRequest& request) {
  set_verbosity(request.verbosity);
  const bool is_process = request.launch.backend != CommunicationBackend::local && request.launch.ranks > 1;
  prepare_process(is_process ? request.launch.ranks_here : request.launch.ranks);
  if (is_process) return run_process(request);
  return request.launch.ranks > 1 ? run_threads(request) : run_alone(request);
}

}  // namespace llmtrain
