// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/base/log.h"
#include "core/base/stop_signals.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

// The interface between the program and the training runtime, a shared library (libllmtrain_runtime.so) beside it that
// links LibTorch. This header names no LibTorch type, so that the program runs `validate` and `schema` without it.
// Every function throws Error like its counterpart in parallel/engine.

// The figures of a run's plan, for its log and its folder.
struct RunPlan {
  std::string profile;
  double step_seconds = 0;
  double peak_bytes = 0;     // of the fullest rank
  double process_bytes = 0;  // peak of a process: if ranks are threads, of all of them, with the libraries' part once
  double tensor_bytes = 0;   // the first rank's peak without the libraries' part
  std::string json;          // plan.json
  std::string page;          // report.html
};

// The ranks that train together.
struct RunLaunch {
  std::int64_t ranks = 1;
  std::int64_t ranks_here = 1;  // processes that share this process's processors
  std::int64_t local_rank = 0;  // this process's index among them
  // local: threads of this process. Otherwise processes; automatic means nccl if each has its own GPU, else mpi.
  CommunicationBackend backend = CommunicationBackend::local;
  std::string launcher;  // name of the program that started the processes, for the log
};

struct RunRequest {
  std::shared_ptr<const Layout> layout;  // the one that the plan priced
  Verbosity verbosity = Verbosity::normal;
  std::optional<RunPlan> plan;
  std::optional<std::string> trace;  // a file for the timeline of the last steps
  RunLaunch launch;
  const StopSignals* stop = nullptr;                              // asked once per step; outlives the run
  std::optional<std::chrono::system_clock::time_point> deadline;  // the run ends, with a checkpoint, before it

  const Recipe& recipe() const { return layout->recipe(); }  // --run-dir and --resume have already changed it
};

struct EvaluateRequest {
  Recipe recipe;                    // data.validation is evaluated, or data.train without it
  std::string checkpoint;           // folder of the checkpoint
  std::optional<std::string> data;  // a file, folder or glob to evaluate instead
  std::int64_t batches = 0;         // global batches; 0: all data once
};

struct EvaluateResult {
  double loss = 0;  // nats per token
  double perplexity = 0;
  std::int64_t tokens = 0;
  std::int64_t step = 0;  // of the checkpoint
};

struct SampleRequest {
  Recipe recipe;
  std::string checkpoint;
  std::string prompt;
  std::int64_t tokens = 200;
  double temperature = 0.8;  // 0: always the most likely token
  std::int64_t top_k = 0;    // 0: all
  std::int64_t seed = 1234;
};

struct ExportRequest {
  Recipe recipe;
  std::string checkpoint;
  std::string destination;  // a new folder
};

struct RuntimeVersions {
  std::string libtorch;     // "2.11.0"
  std::string cpu;          // vector instructions that LibTorch uses
  std::string cuda_device;  // the GPU's name and memory, or the reason why there is none
};

class RuntimeInterface {
 public:
  virtual ~RuntimeInterface() = default;
  virtual int run(const RunRequest& request) = 0;  // returns an ExitCode; a rank that another rank's failure ends
                                                   // returns that rank's code and prints nothing
  virtual EvaluateResult evaluate(const EvaluateRequest& request) = 0;
  virtual std::string sample(const SampleRequest& request) = 0;  // prompt and continuation, printable
  virtual void export_huggingface(const ExportRequest& request) = 0;
  virtual ClusterProfile calibrate(DeviceKind device, const ClusterProfile& base) = 0;
  virtual RuntimeVersions versions() = 0;
  virtual bool has_mpi() = 0;  // whether the part that joins MPI was built
};

}  // namespace llmtrain

// Never null; lives as long as the library.
extern "C" llmtrain::RuntimeInterface* llmtrain_runtime();
