// SPDX-License-Identifier: Apache-2.0
#include <spdlog/fmt/fmt.h>
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "apps/llmtrain/checkpoint/checkpoint_source.h"
#include "apps/llmtrain/commands.h"
#include "apps/llmtrain/flags.h"
#include "apps/llmtrain/inference/chat_prompts.h"
#include "apps/llmtrain/inference/draft_flags.h"
#include "apps/llmtrain/launch/executable_recipe.h"
#include "apps/llmtrain/serve/embeddings/sentence_pooling.h"
#include "apps/llmtrain/serve/model/kept_model.h"
#include "apps/llmtrain/serve/server.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/log.h"
#include "core/base/units.h"
#include "core/recipe/checkpoint_source.h"
#include "core/signals/stop_signals.h"

namespace llmtrain::app {
namespace {

constexpr const char* key_variable = "LLMTRAIN_API_KEY";
// Clients that are connected while others' texts grow and wait: those that ask for something else, or send slowly.
constexpr std::int64_t further_clients = 64;

const std::map<std::string, TextPooling> pooling_kinds{
    {"mean", TextPooling::mean}, {"class", TextPooling::first}, {"last", TextPooling::last}};

struct ServeOptions {
  std::string source;
  std::vector<Override> overrides;
  std::string host = "127.0.0.1";
  std::int64_t port = 8000;
  std::optional<std::string> name, key_file;
  std::int64_t sequences = ServeRequest{}.sequences;
  std::int64_t waiting = ServeRequest{}.waiting;
  std::uint64_t cache_bytes = static_cast<std::uint64_t>(ServeRequest{}.cache_bytes);
  std::uint64_t body_bytes = std::uint64_t{1} << 20;
  std::int64_t tokens = 0;
  bool is_exact = false;
  InferenceRanks ranks;
  WeightMemoryFlags memory;
  KeyValueType key_values = KeyValueType::compute;
  DraftFlags draft;
  std::int64_t restarts = 2;
  std::optional<std::string> pooling;
};

// What the flag says, else the folder of the model; none where neither does.
std::optional<TextPooling> asked_pooling(const ServeOptions& options) {
  const auto folder = huggingface_folder(options.source);
  const auto config = folder ? pooling_config_in(*folder) : std::nullopt;
  if (options.pooling) return pooling_kinds.at(*options.pooling);
  return config ? std::optional(read_pooling(*config)) : std::nullopt;
}

// Where nobody says, what sentence-transformers takes of encoders, and the one token of a decoder that has seen the
// text.
TextPooling pooling_of(const std::optional<TextPooling>& asked, const Recipe& recipe) {
  const bool reads_both_sides = is_encoder(recipe.model.architecture);
  const TextPooling pooling = asked.value_or(reads_both_sides ? TextPooling::mean : TextPooling::last);
  if (pooling == TextPooling::first && !reads_both_sides)
    throw Error(ExitCode::bad_recipe, "--pooling class: the first token of a decoder sees no other; take last or mean");
  return pooling;
}

// What the first line says that it has room for.
std::string room_of(const ServeOptions& options, const ServedModel& model, const TextService& service) {
  if (!model.writes_texts()) return fmt::format("embeddings of up to {} tokens", service.longest_embedded());
  const std::int64_t ranks = options.ranks.count();
  return fmt::format("up to {} tokens of prompt and answer, {} texts at once in {} of keys and values{}",
                     service.longest(), options.sequences, format_bytes(service.load().cache_bytes),
                     ranks == 1 ? "" : fmt::format(" on each of {} ranks", ranks));
}

// Empty: none.
std::string api_key_of(const ServeOptions& options) {
  std::string key;
  if (options.key_file) {
    key = read_file(*options.key_file);
    key.resize(key.find_last_not_of(" \t\r\n") + 1);
    if (key.empty()) throw Error(ExitCode::bad_data, *options.key_file + ": --api-key-file has no key in it");
  } else if (const char* given = std::getenv(key_variable)) {
    key = given;
  }
  return key;
}

// What the model is called where nobody says: the run's or the folder's name.
std::string name_of(const ServeOptions& options) {
  if (options.name) return *options.name;
  std::filesystem::path path =
      std::filesystem::absolute(huggingface_folder(options.source).value_or(options.source)).lexically_normal();
  if (!path.has_filename()) path = path.parent_path();
  return path.stem() == path.filename() ? path.filename().string() : path.stem().string();
}

// Until a signal ends it.
void serve_until_stopped(const ServeOptions& options, const std::string& key, std::int64_t dimensions,
                         ServedModel& model, const KeptModel& kept, const StopSignals& signals) {
  const std::shared_ptr<TextService> service = kept.service();
  const std::int64_t context = service->longest();
  model.set_limits({.context = context,
                    .tokens = options.tokens == 0 ? context : std::min(options.tokens, context),
                    .embedded = service->longest_embedded(),
                    .dimensions = dimensions});
  RequestHandler handler(model, kept, {.body_bytes = options.body_bytes, .api_key = key});
  Listener listener(options.host, options.port);
  log().info("serving \"{}\" at {}/v1: {}", model.name(), listener.address(), room_of(options, model, *service));
  const bool is_open = options.host != "127.0.0.1" && options.host != "::1" && options.host != "localhost";
  if (is_open && key.empty())
    log().warn("--host {}: whoever reaches it may use the model; set a key in {} or --api-key-file", options.host,
               key_variable);
  serve_clients(listener, handler, options.sequences + options.waiting + further_clients,
                [&] { return signals.requested() || kept.is_over(); });
  if (!kept.is_over()) log().info("ended on request, with every answer that had begun");
}

int serve(const ServeOptions& options) {
  const std::optional<TextPooling> asked = asked_pooling(options);
  auto source = open_source(options.source, options.overrides, true);
  const std::string checkpoint = source.checkpoint().string();
  require_executable(source.recipe, checkpoint);
  if (!is_encoder(source.recipe.model.architecture)) require_decoder(source.recipe, checkpoint, "serve");
  require_tokenizer(source, options.overrides);
  take_chat_template(source.recipe, source.checkpoint());
  const std::string key = api_key_of(options);
  ServedModel model(name_of(options), source.recipe, checkpoint);
  ServeRequest request;
  request.recipe = source.recipe;
  request.checkpoint = checkpoint;
  request.sequences = options.sequences;
  request.waiting = options.waiting;
  request.cache_bytes = static_cast<std::int64_t>(options.cache_bytes);
  request.is_exact = options.is_exact;
  request.ranks = options.ranks;
  request.memory = options.memory.memory();
  request.key_values = options.key_values;
  const OpenedDraft draft = open_draft(options.draft, source.recipe);
  request.draft = draft.request;
  require_drafts_apply(request);
  request.pooling = pooling_of(asked, source.recipe);
  const StopSignals signals;
  KeptModel kept({std::move(request), options.overrides}, options.restarts, [&] { return signals.requested(); });
  if (kept.wait_until_ready())
    serve_until_stopped(options, key, source.recipe.model.hidden_size, model, kept, signals);
  else
    log().info("ended on request, before the model was loaded");
  kept.stop();
  return 0;
}

void add_address_flags(CLI::App& command, ServeOptions& options) {
  command.add_option("--host", options.host, "Address to listen at; 0.0.0.0: every one of this machine")
      ->type_name("ADDRESS")
      ->capture_default_str()
      ->check(text_not_empty());
  command.add_option("--port", options.port, "Port to listen at; 0: any that is free, which the first line says")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(0, 65535));
  command.add_option("--name", options.name, "The model's name (default: that of SOURCE)")
      ->type_name("NAME")
      ->check(text_not_empty());
  command
      .add_option("--api-key-file", options.key_file,
                  "Answer only requests with the key in this file, or in LLMTRAIN_API_KEY of the environment")
      ->type_name("FILE");
}

void add_limit_flags(CLI::App& command, ServeOptions& options) {
  command.add_option("--batch", options.sequences, "Texts that grow together")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(1, 1024));
  command.add_option("--queue", options.waiting, "Further texts that may wait; more are refused with 429")
      ->type_name("N")
      ->capture_default_str()
      ->check(CLI::Range(0, 4096));
  command.add_option("--cache", options.cache_bytes, "Memory of keys and values, as in 4GiB; of each rank")
      ->type_name("BYTES")
      ->default_str("1GiB")
      ->transform(CLI::AsSizeValue(false).description(""));
  add_key_value_flag(command, options.key_values);
  add_inference_rank_flags(command, options.ranks);
  add_weight_memory_flags(command, options.memory);
  command
      .add_option(
          "--restarts", options.restarts,
          "Times in a row that a model which was killed, or has failed, is loaded again; 0: the server ends with it")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_not_negative());
  command.add_option("--tokens", options.tokens, "Most tokens of an answer; 0: as many as the model has room for")
      ->type_name("N")
      ->capture_default_str()
      ->check(whole_number_not_negative());
  command.add_option("--max-body", options.body_bytes, "Most bytes of a request's body; more are refused with 413")
      ->type_name("BYTES")
      ->default_str("1MiB")
      ->transform(CLI::AsSizeValue(false).description(""));
}

}  // namespace

void add_serve(CLI::App& program, Action& action) {
  const auto options = std::make_shared<ServeOptions>();
  CLI::App* command = program.add_subcommand("serve", "Answers clients of OpenAI's interface with a trained model");
  add_source_argument(*command, options->source);
  add_address_flags(*command, *options);
  add_limit_flags(*command, *options);
  command->add_flag("--exact", options->is_exact,
                    "Log-probabilities with the bits that training and eval --exact compute; prompts take longer");
  command
      ->add_option(
          "--pooling", options->pooling,
          "Embeddings of texts: the mean of their tokens, the class token's, or the last one's (default: what a "
          "folder of sentence-transformers says, else mean for encoders and last for decoders)")
      ->type_name("KIND")
      ->check(CLI::IsMember(pooling_kinds));
  add_draft_flags(*command, options->draft);
  add_set_flag(*command, options->overrides);
  command->footer(
      "Example:\n  llmtrain serve runs/mine --port 8000\n\n"
      "It answers /v1/chat/completions, /v1/completions, /v1/embeddings, /v1/models,\n"
      "/tokenize, /health and /metrics. An encoder, such as BERT, only embeds texts.\n"
      "SIGTERM or Ctrl-C ends it when all answers that had begun have.");
  command->callback([options, &action] { action = [options] { return serve(*options); }; });
}

}  // namespace llmtrain::app
