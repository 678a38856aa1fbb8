// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "core/base/log.h"
#include "core/recipe/recipe.h"
#include "parallel/layout/layout.h"
#include "parallel/plan/cost/cluster_profile.h"

namespace llmtrain {

// What the program asks of the training runtime, a shared library (libllmtrain_runtime.so) beside it that brings
// LibTorch in. This header names no LibTorch type: the program answers `validate` and `schema` without it. Every
// function throws Error as its declaration in parallel/engine says.

// What the plan of a run says, for its log and its folder.
struct RunPlan {
  std::string profile;
  double step_seconds = 0;
  double peak_bytes = 0;     // of the fullest rank
  double process_bytes = 0;  // at most of a process: where ranks are its threads of all, with the libraries' part once
  double tensor_bytes = 0;   // the first rank's peak without what libraries keep
  std::string json;          // plan.json
  std::string page;          // report.html
};

// Which ranks train together.
struct RunLaunch {
  std::int64_t ranks = 1;
  std::int64_t ranks_here = 1;  // processes that share the processors that this one may use
  std::int64_t local_rank = 0;  // this one's number among them
  // local: threads of this process. Else processes, where automatic is nccl if each has a GPU of its own, and mpi if
  // not.
  CommunicationBackend backend = CommunicationBackend::local;
  std::string launcher;  // what started the processes, for the log
};

struct RunRequest {
  std::shared_ptr<const Layout> layout;  // the one that the plan priced
  Verbosity verbosity = Verbosity::normal;
  std::optional<RunPlan> plan;
  std::optional<std::string> trace;  // a file for the timeline of the last steps
  RunLaunch launch;

  const Recipe& recipe() const { return layout->recipe(); }  // --run-dir and --resume have already changed it
};

struct EvaluateRequest {
  Recipe recipe;                    // its data.validation is what is evaluated (data.train without it)
  std::string checkpoint;           // a checkpoint's folder
  std::optional<std::string> data;  // a file, folder or glob to evaluate instead
  std::int64_t batches = 0;         // global batches; 0: all of one pass
};

struct EvaluateResult {
  double loss = 0;  // nats a token
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
  std::string cuda_device;  // the GPU's name and memory, or why there is none
};

class RuntimeInterface {
 public:
  virtual ~RuntimeInterface() = default;
  virtual int run(const RunRequest& request) = 0;  // returns an ExitCode; a rank that another one takes down returns
                                                   // its code, and says nothing
  virtual EvaluateResult evaluate(const EvaluateRequest& request) = 0;
  virtual std::string sample(const SampleRequest& request) = 0;  // the prompt and what follows, fit for a terminal
  virtual void export_huggingface(const ExportRequest& request) = 0;
  virtual ClusterProfile calibrate(DeviceKind device, const ClusterProfile& base) = 0;
  virtual RuntimeVersions versions() = 0;
  virtual bool has_mpi() = 0;  // whether the part that joins MPI was built
};

}  // namespace llmtrain

// Never null; lives as long as the library.
extern "C" llmtrain::RuntimeInterface* llmtrain_runtime();
