// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "core/base/log.h"
#include "core/graph/loss_term.h"
#include "core/graph/routing_sums.h"
#include "core/machine/host_memory.h"
#include "core/metrics/class_counts.h"
#include "core/recipe/recipe.h"
#include "core/signals/stop_signals.h"
#include "parallel/layout/layout.h"
#include "parallel/layout/streamed_weights.h"
#include "parallel/plan/profile/cluster_profile.h"
#include "parallel/runtime/draft_request.h"
#include "parallel/runtime/inference/inference_ranks.h"
#include "parallel/runtime/text_service.h"

namespace llmtrain {

// The interface between the program and the training runtime, a shared library (libllmtrain_runtime.so) beside it that
// links LibTorch. This header names no LibTorch type, so that the program runs `validate` and `schema` without it.
// Every function throws Error like its counterpart in parallel/engine.

// The figures of a run's plan, for its log and its folder.
struct RunPlan {
  std::string profile;
  double step_seconds = 0;
  double peak_bytes = 0;     // of the fullest rank
  double process_bytes = 0;  // of the first rank's process: if ranks are threads, of all, with the libraries' part once
  double tensor_bytes = 0;   // the first rank's peak without the libraries' part
  double most_tensor_bytes = 0;  // the same once layers have left FP8, however many
  std::string json;              // plan.json
  std::string page;              // plan.html
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

struct RunRequest;

// What memory.limit leaves for the tensors of a rank: a settled recipe has no limit any more.
struct TensorLimit {
  std::vector<std::int64_t> bytes;  // by rank of the pipeline
  // Plans again, so that the fullest rank needs so many bytes less than it was planned to: the request gets another
  // layout, with the plan, the advice and the limit of that; a plan only where it had one. Throws Error(bad_recipe)
  // where nothing needs so much less. Several threads may call it, each with a request of its own.
  std::function<void(RunRequest& request, std::int64_t less)> replan;
};

struct RunRequest {
  std::shared_ptr<const Layout> layout;  // the one that the plan priced
  Verbosity verbosity = Verbosity::normal;
  std::optional<RunPlan> plan;
  std::optional<std::string> trace;  // a file for the timeline of the last steps
  RunLaunch launch;
  const StopSignals* stop = nullptr;                              // asked once per step; outlives the run
  std::optional<std::chrono::system_clock::time_point> deadline;  // the run ends, with a checkpoint, before it
  MemoryAdvice memory_advice;                                     // where memory runs out
  std::optional<TensorLimit> tensor_limit;                        // where the recipe has a limit

  const Recipe& recipe() const { return layout->recipe(); }  // --run-dir and --resume have already changed it
};

// How a loss is measured: of texts, each whole, with every token scored once, or of samples of the recipe's length, one
// document behind another, as training does it.
enum class EvaluationMethod { rolling, packed };

// What is evaluated together, and has one result.
struct EvaluationData {
  std::string name;                 // for people
  std::vector<DataSource> sources;  // files, folders or globs; of text where the method is rolling
  std::string role;                 // of the sources, in messages: "--data", "/data/validation"
  EvaluationMethod method = EvaluationMethod::packed;
  std::size_t first_source = 0;  // where the role's list has the first of the sources
};

struct EvaluateRequest {
  Recipe recipe;
  std::string checkpoint;  // folder of the checkpoint
  std::vector<EvaluationData> data;
  std::int64_t batches = 0;  // global batches of packed samples; 0: all data once
  // Targets that the model writes of the first sources of pairs, to be compared; 0: none, and without a number as many
  // as training.generation says.
  std::optional<std::int64_t> targets{};
  std::int64_t window = 0;  // tokens that the model sees at once of a text; 0: model.max_sequence_length
  // Whether each token's loss has the bits that it has alone, which are those of an exact service.
  bool is_exact = false;
  InferenceRanks ranks;
  std::optional<WeightMemory> memory{};  // of weights; none: all are in memory
};

// Figures of texts that the rolling method alone has, counted as lm-evaluation-harness does.
struct TextFigures {
  std::int64_t texts = 0;
  std::int64_t words = 0;
  std::int64_t bytes = 0;
  double log_likelihood = 0;  // of all texts, in nats
};

// The loss of one of the data and what follows from it. Of several loss terms perplexity and the figures behind it are
// of the first. Nothing where no token was scored.
struct EvaluateResult {
  std::optional<double> loss;           // nats per token; of several terms their sum, each times its coefficient
  std::vector<LossValue> terms;         // where there is more than one
  std::optional<double> perplexity;     // per token
  std::optional<double> bits_per_byte;  // where each token stands for a known number of bytes
  std::int64_t tokens = 0;              // the rows that count in the first term
  std::optional<TextFigures> texts;     // of the rolling method
  std::vector<Figure> figures;          // of predictions: of classes, instead of perplexity, or of texts
  std::int64_t step = 0;                // of the checkpoint
};

// How the most likely text is searched for by several beginnings at once
// (parallel/engine/generation/beam_hypotheses.h).
struct BeamRequest {
  enum class EarlyStopping { no, yes, never };

  std::int64_t beams = 1;  // 1: the next token is chosen alone
  double length_penalty = 1;
  EarlyStopping early_stopping = EarlyStopping::no;
};

struct SampleRequest {
  Recipe recipe;
  std::string checkpoint;
  std::vector<std::string> prompts;  // an empty one stands for a new line
  bool begins_texts = true;          // prompts begin as texts that the model has seen do: with the tokenizer's marks
  std::int64_t tokens = 200;         // of each text, without its prompt
  double temperature = 0.8;          // 0: always the most likely token
  std::int64_t top_k = 0;            // 0: all
  double top_p = 1;                  // 1: all
  double repetition_penalty = 1;     // of the tokens that a text has already; 1: off
  std::int64_t seed = 1234;
  std::int64_t no_repeat_ngram_size = 0;       // no sequence of so many tokens twice; 0: any
  std::optional<std::int64_t> forced_first{};  // the id that each text begins with
  std::optional<std::int64_t> forced_last{};   // the id that a text ends with which has no room for more
  BeamRequest beams{};                         // with more than one, instead of temperature, top_k and top_p
  // For an encoder-decoder, whose prompts are sources: the id that its texts are written after; none: the tokenizer's
  // padding.
  std::optional<std::int64_t> decoder_start{};
  std::int64_t samples = 1;       // texts of each prompt
  std::int64_t first_prompt = 0;  // those before it get no texts
  std::int64_t batch = 16;        // texts that grow together
  KeyValueType key_values = KeyValueType::compute;
  std::optional<DraftRequest> draft{};
  std::vector<std::string> stop;  // a text ends before any of them
  InferenceRanks ranks;
  std::optional<WeightMemory> memory{};  // of weights; none: all are in memory
};

struct SampleEnd {
  std::string text;                  // without the prompt and the stop
  std::vector<std::int64_t> tokens;  // also those of the stop
  enum class Reason { length, stop, end_of_text } reason = Reason::length;
};

// More of a text. Texts grow at the same time; pieces of one are in order.
struct SamplePiece {
  std::int64_t prompt = 0, sample = 0;
  std::string text;  // whole characters that certainly belong to the text
  std::optional<SampleEnd> end;
};
using SampleListener = std::function<void(const SamplePiece&)>;

// The next prompt of a conversation, as a chat template has written it; none ends the conversation.
using NextPrompt = std::function<std::optional<std::string>()>;

struct ChoiceQuestion {
  std::string context;
  std::vector<std::string> choices;  // each follows the context as it stands
};

struct ScoreRequest {
  Recipe recipe;
  std::string checkpoint;
  std::vector<ChoiceQuestion> questions;
  InferenceRanks ranks;
  KeyValueType key_values = KeyValueType::compute;
  std::optional<WeightMemory> memory{};  // of weights; none: all are in memory
};

struct ChoiceScores {
  std::vector<std::vector<double>> log_probabilities;  // of each question's choices, in nats
  std::int64_t step = 0;                               // of the checkpoint
};

// A text of which part was written by a server of the model, as it tells of it.
struct Rollout {
  std::string place;                    // in what messages say of it: "FILE: line N"
  std::vector<std::int64_t> prompt{};   // at least one token
  std::vector<std::int64_t> answer{};   // at least one token
  std::vector<TokenExperts> experts{};  // of all tokens but the last; empty: routers choose
};

struct RolloutRequest {
  Recipe recipe;
  std::string checkpoint;
  std::vector<Rollout> rollouts;
  bool is_exact = false;  // EvaluateRequest::is_exact
  InferenceRanks ranks{};
  std::optional<WeightMemory> memory{};  // of weights; none: all are in memory
};

struct RolloutScores {
  std::vector<std::vector<double>> log_probabilities;  // of the tokens of each answer, in nats, as losses have them
  std::int64_t step = 0;                               // of the checkpoint
};

// As what a model is exported: a folder of transformers, into which adapters are merged, or PEFT's of the adapters
// alone.
enum class ExportFormat { huggingface, peft };

struct ExportRequest {
  Recipe recipe;
  std::string checkpoint;
  std::string destination;  // a new folder
  ExportFormat format = ExportFormat::huggingface;
  // For transformers' format alone:
  std::optional<DataType> dtype;        // of all weights; none: the one in which the checkpoint has them, or fp32
  std::int64_t shard_bytes = 0;         // of a file's tensors, at most
  std::string origin;                   // the folder of transformers from which the model came; empty: none
  std::vector<std::int64_t> ends;       // ids of which each ends a text
  std::optional<std::int64_t> padding;  // the tokenizer's id that fills sequences up
};

// A folder of transformers that becomes a checkpoint.
struct ImportRequest {
  Recipe recipe;               // whose model is that of config.json, and which the checkpoint holds
  std::string source;          // the folder
  std::string destination;     // a new folder, which will be the checkpoint
  bool may_lack_head = false;  // the one that predicts tokens, of an encoder: zeros take its place
  std::function<void(const std::filesystem::path&)> add_files;  // may write into the new folder before it is complete
};

// How calibrate() measures: in about two seconds or ten.
enum class Effort { quick, thorough };

// Reads the bundled profile of this name. Throws as load_profile() does.
using LoadProfile = std::function<ClusterProfile(const std::string& name)>;

// What one of a training's operators that are bound by memory takes by itself.
struct KernelTime {
  std::string name;    // "RMSNorm and residual"
  std::string shape;   // "32768 × 1024"
  double seconds = 0;  // median of a call
  double bytes = 0;    // that it has to read and write at least
};

struct KernelTimes {
  std::string device;    // its name
  std::string type;      // of activations: "bf16"
  double bandwidth = 0;  // bytes per second of copies and sums of large arrays, measured
  std::vector<KernelTime> kernels;
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
  // A result for each of the data, in their order.
  virtual std::vector<EvaluateResult> evaluate(const EvaluateRequest& request) = 0;
  // Tells the listener of every text as it grows, from one thread.
  virtual void sample(const SampleRequest& request, const SampleListener& listener) = 0;
  // The same of prompts that come one after another, each asked for when the text of the one before has ended, and each
  // with the next seed; the request has none itself. They get no marks of the tokenizer. On one rank.
  virtual void converse(const SampleRequest& request, const NextPrompt& next, const SampleListener& listener) = 0;
  // Loads a model, calls `use` in another thread with its service, and returns when that does. Throws what it throws,
  // and what ended the service.
  virtual void serve(const ServeRequest& request, const std::function<void(TextService&)>& use) = 0;
  virtual ChoiceScores score(const ScoreRequest& request) = 0;
  // Throws Error(bad_data) that begins with the place of what is not a rollout of this model.
  virtual RolloutScores score(const RolloutRequest& request) = 0;
  virtual void export_model(const ExportRequest& request) = 0;
  virtual void import_model(const ImportRequest& request) = 0;
  virtual ClusterProfile calibrate(DeviceKind device, const LoadProfile& load, Effort effort) = 0;
  // Blocks for seconds.
  virtual KernelTimes time_kernels(DeviceKind device, Effort effort) = 0;
  virtual RuntimeVersions versions() = 0;
  virtual bool has_mpi() = 0;  // whether the part that joins MPI was built
};

}  // namespace llmtrain

// Never null; lives as long as the library.
extern "C" llmtrain::RuntimeInterface* llmtrain_runtime();
