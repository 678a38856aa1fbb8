// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>
#include <span>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

#include "core/base/elapsed_time.h"
#include "core/checkpoint/stored_model.h"
#include "parallel/comm/communicator.h"
#include "parallel/device/device.h"
#include "parallel/engine/generation/generation.h"
#include "parallel/engine/model_state.h"

// The sampling process that scripts/benchmarks/bench_sampling controls: it reads the command "run PREFIX TOKENS BATCH"
// from standard input, one per line, generates TOKENS tokens after each of BATCH prompts of PREFIX, all at once, and
// answers with one line of JSON: the seconds until all have their first token, and those of each step after it, in
// which every text grows by a token. With "int8" or "fp8" behind the checkpoint, keys and values are kept so; with
// "lookup" four tokens are guessed at once by what followed the same tokens before, and with "wrong" by nobody who
// could know: the answer then has how many guesses there were and how many were right.

namespace {

using nlohmann::json;

struct Mode {
  llmtrain::KeyValueType key_values = llmtrain::KeyValueType::compute;
  std::unique_ptr<llmtrain::Drafts> drafts{};
};

// Costs what guesses cost that are never right, but for chance.
class WrongDrafts final : public llmtrain::Drafts {
 public:
  Guesses guess(std::span<const llmtrain::DraftedText> texts) override {
    Guesses guesses;
    for (const llmtrain::DraftedText& text : texts)
      guesses.emplace_back(static_cast<std::size_t>(std::max<std::int64_t>(text.most, 0)),
                           (text.tokens.back() + 1 + text.index) % 251);
    return guesses;
  }
};

json generate(llmtrain::LocalModel& model, const Mode& mode, std::int64_t prefix, std::int64_t tokens,
              std::int64_t batch) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<std::int64_t>> prompts(static_cast<std::size_t>(batch));
  for (std::int64_t text = 0; text < batch; ++text)
    for (std::int64_t i = 0; i < prefix; ++i)
      prompts[static_cast<std::size_t>(text)].push_back((i * 7 + 3 + text) % model.graph().model.vocab_size);
  const llmtrain::GenerateOptions options{.tokens = tokens,
                                          .choice = {.temperature = 0},
                                          .batch = batch,
                                          .key_values = mode.key_values,
                                          .drafting = {mode.drafts.get(), mode.drafts ? 4 : 0}};
  const auto before = mode.drafts ? mode.drafts->counts() : llmtrain::Drafts::Counts{};
  std::vector<double> seconds;
  auto last = Clock::now();
  std::int64_t count = 0;
  llmtrain::generate(model, prompts, options, [&](const llmtrain::TextNumber&, std::int64_t) {
    if (++count % batch != 0) return true;
    const auto now = Clock::now();
    seconds.push_back(llmtrain::seconds_between(last, now));
    last = now;
    return true;
  });
  const double first = seconds.front();
  seconds.erase(seconds.begin());
  json answer = {{"first", first}, {"seconds", seconds}};
  if (mode.drafts) {
    answer["drafted"] = mode.drafts->counts().drafted - before.drafted;
    answer["accepted"] = mode.drafts->counts().accepted - before.accepted;
  }
  return answer;
}

void serve(llmtrain::LocalModel& model, const Mode& mode) {
  std::cout << json{{"ready", true}} << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    std::int64_t prefix = 1, tokens = 1, batch = 1;
    words >> command >> prefix >> tokens >> batch;
    std::cout << generate(model, mode, prefix, tokens, batch) << std::endl;
  }
}

// None for an unknown word.
std::optional<Mode> mode_of(std::string_view word) {
  if (word == "int8") return Mode{.key_values = llmtrain::KeyValueType::int8};
  if (word == "fp8") return Mode{.key_values = llmtrain::KeyValueType::fp8};
  if (word == "lookup") return Mode{.drafts = std::make_unique<llmtrain::LookupDrafts>()};
  if (word == "wrong") return Mode{.drafts = std::make_unique<WrongDrafts>()};
  return word.empty() ? std::optional(Mode{}) : std::nullopt;
}

}  // namespace

int main(int argument_count, char** arguments) {
  const std::optional<Mode> mode = mode_of(argument_count > 2 ? arguments[2] : "");
  if (argument_count < 2 || argument_count > 3 || !mode) {
    std::cerr << "usage: sample_worker CHECKPOINT [int8|fp8|lookup|wrong]\n";
    return 2;
  }
  try {
    llmtrain::prepare_process();
    const llmtrain::CheckpointReader checkpoint(arguments[1]);
    llmtrain::Recipe recipe = llmtrain::recipe_of(checkpoint, {});
    const auto alone = llmtrain::make_solo_communicator();
    const auto layout = std::make_shared<const llmtrain::Layout>(llmtrain::Partition::make(recipe, 1));
    llmtrain::LocalModel model(layout, *alone, llmtrain::choose_device(recipe.cluster.device),
                               llmtrain::StateContents::weights);
    llmtrain::load_weights(model, checkpoint);
    serve(model, *mode);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
