// SPDX-License-Identifier: Apache-2.0
#include <ATen/Version.h>
#include <spdlog/sinks/sink.h>
#include <torch/headeronly/version.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/machine/host_memory.h"
#include "parallel/comm/agreement.h"
#include "parallel/comm/communicator.h"
#include "parallel/comm/local/local_world.h"
#include "parallel/device/device.h"
#include "parallel/runtime/calibration/calibrate.h"
#include "parallel/runtime/calibration/kernel_times.h"
#include "parallel/runtime/inference/inference_requests.h"
#include "parallel/runtime/model_exchange.h"
#include "parallel/runtime/parts.h"
#include "parallel/runtime/rank_devices.h"
#include "parallel/runtime/rank_threads.h"
#include "parallel/runtime/runtime_interface.h"
#include "parallel/runtime/training/run_training.h"

namespace llmtrain {
namespace {

// How long a failed rank waits for an earlier failure of another rank, so that only the first one is printed.
constexpr std::chrono::milliseconds listening{1500}, interval{20};

// Reports a failure to the other ranks, and prints it unless another rank has failed first. Where a thread that watches
// this rank has reported one already, `error` is what came of it.
ExitCode fail(Communicator& communicator, const Error& found) {
  const auto known = communicator.failure();
  const bool is_own = known && known->rank == communicator.rank();
  const Error error = is_own ? Error(known->code, known->message) : found;
  const auto other_failed = [&] {
    const auto failure = communicator.failure();
    return failure && failure->rank != communicator.rank();
  };
  const auto end = std::chrono::steady_clock::now() + listening;
  // The first rank does not wait: it has priority in printing.
  while (communicator.rank() > 0 && !communicator.failure() && std::chrono::steady_clock::now() < end)
    std::this_thread::sleep_for(interval);
  // Print before informing the others: a launcher kills all ranks as soon as one has ended.
  const std::string message = error.what(), name = "rank " + std::to_string(communicator.rank());
  const bool has_name = communicator.rank() == 0 || message.starts_with(name + " ");
  if (!other_failed()) log().error("{}{}", has_name ? "" : name + ": ", message);
  communicator.abort(error.code(), error.what());
  return error.code();
}

// Only the first rank prints progress; the others print errors.
void follow_first_rank() { set_verbosity(Verbosity::errors); }

void check_size(const RunRequest& request, const Communicator& world) {
  if (world.size() == request.launch.ranks) return;
  throw Error(ExitCode::bad_recipe, "/launch/ranks: " + request.launch.launcher + " started " +
                                        std::to_string(request.launch.ranks) + " ranks, but MPI reports " +
                                        std::to_string(world.size()) +
                                        "; start them with mpirun, or with srun --mpi=pmix");
}

ExitCode run_process(const RunRequest& asked) {
  const std::shared_ptr<Communicator> mpi = join_mpi(watchdog_seconds(asked.recipe().launch));
  if (mpi->rank() > 0) follow_first_rank();
  // Outlives the handling of an error: its destructor would wait for the other ranks, which first have to learn of it.
  std::shared_ptr<Communicator> connected;
  ExitCode code = ExitCode::done;
  const auto failure = error_of([&] {
    check_size(asked, *mpi);
    RunRequest request = asked;
    const c10::Device device = choose_rank_device(request.recipe(), asked.launch.backend, asked.launch.local_rank);
    request.launch.backend = agree_on_backend(*mpi, asked.launch.backend, device);
    connected = connect_devices(mpi, request.launch.backend, device, watchdog_seconds(request.recipe().launch));
    code = run_training(request, device, *connected);
  });
  return failure ? fail(*mpi, *failure) : code;
}

ExitCode run_threads(const RunRequest& request) {
  const LaunchRecipe& launch = request.recipe().launch;
  LocalOptions options = rank_thread_options(launch);
  options.links = {.delay_seconds = launch.link_delay_microseconds * 1e-6,
                   .bytes_per_second = launch.link_megabytes_per_second * 1e6,
                   .message_seconds = launch.link_message_microseconds * 1e-6,
                   .node_ranks = static_cast<int>(request.layout->mesh().devices_per_node),
                   .node_speedup = launch.node_link_speedup};
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

// Runs the training on the ranks of `request.launch`: on this rank alone, on threads, or as one process of an MPI
// world. A rank that throws ends the others, and the message appears once: thrown from here if ranks are threads, else
// printed by the rank that failed first, while the others return its code silently. Throws Error(bad_recipe) if
// launcher and MPI disagree on the world, or if the ranks' devices are not what the recipe requests.
ExitCode run_ranks(const RunRequest& request) {
  set_verbosity(request.verbosity);
  advise_on_memory(request.memory_advice);
  const bool is_process = request.launch.backend != CommunicationBackend::local && request.launch.ranks > 1;
  prepare_process(is_process ? request.launch.ranks_here : request.launch.ranks);
  if (is_process) return run_process(request);
  if (request.launch.ranks > 1) return run_threads(request);
  return run_training(request, choose_device(request.recipe().cluster.device), *make_solo_communicator());
}

class Runtime final : public RuntimeInterface {
 public:
  int run(const RunRequest& request) override { return static_cast<int>(run_ranks(request)); }

  std::vector<EvaluateResult> evaluate(const EvaluateRequest& request) override { return evaluate_checkpoint(request); }

  void sample(const SampleRequest& request, const SampleListener& listener) override {
    sample_texts(request, listener);
  }

  void converse(const SampleRequest& request, const NextPrompt& next, const SampleListener& listener) override {
    llmtrain::converse(request, next, listener);
  }
  void serve(const ServeRequest& request, const std::function<void(TextService&)>& use) override {
    serve_texts(request, use);
  }

  ChoiceScores score(const ScoreRequest& request) override { return score_choices(request); }
  RolloutScores score(const RolloutRequest& request) override { return score_rollouts(request); }

  void export_model(const ExportRequest& request) override { export_checkpoint(request); }

  void import_model(const ImportRequest& request) override { import_checkpoint(request); }

  ClusterProfile calibrate(DeviceKind device, const LoadProfile& load, Effort effort) override {
    prepare_process();
    return llmtrain::calibrate(device, load, effort);
  }
  KernelTimes time_kernels(DeviceKind device, Effort effort) override {
    prepare_process();
    return llmtrain::time_kernels(device, effort);
  }

  RuntimeVersions versions() override {
    return {.libtorch = TORCH_VERSION, .cpu = at::get_cpu_capability(), .cuda_device = describe_gpu()};
  }

  bool has_mpi() override { return has_mpi_part(); }
};

}  // namespace
}  // namespace llmtrain

extern "C" llmtrain::RuntimeInterface* llmtrain_runtime() {
  static llmtrain::Runtime runtime;
  return &runtime;
}
