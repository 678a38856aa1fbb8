// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
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
// which every text grows by a token. With "int8" behind the checkpoint, keys and values are kept so.

namespace {

using nlohmann::json;

json generate(llmtrain::LocalModel& model, llmtrain::KeyValueType key_values, std::int64_t prefix, std::int64_t tokens,
              std::int64_t batch) {
  using Clock = std::chrono::steady_clock;
  std::vector<std::vector<std::int64_t>> prompts(static_cast<std::size_t>(batch));
  for (std::int64_t text = 0; text < batch; ++text)
    for (std::int64_t i = 0; i < prefix; ++i)
      prompts[static_cast<std::size_t>(text)].push_back((i * 7 + 3 + text) % model.graph().model.vocab_size);
  const llmtrain::GenerateOptions options{
      .tokens = tokens, .choice = {.temperature = 0}, .batch = batch, .key_values = key_values};
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
  return {{"first", first}, {"seconds", seconds}};
}

void serve(llmtrain::LocalModel& model, llmtrain::KeyValueType key_values) {
  std::cout << json{{"ready", true}} << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    std::int64_t prefix = 1, tokens = 1, batch = 1;
    words >> command >> prefix >> tokens >> batch;
    std::cout << generate(model, key_values, prefix, tokens, batch) << std::endl;
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  const bool is_int8 = argument_count == 3 && arguments[2] == std::string_view("int8");
  if (argument_count != 2 && !is_int8) {
    std::cerr << "usage: sample_worker CHECKPOINT [int8]\n";
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
    serve(model, is_int8 ? llmtrain::KeyValueType::int8 : llmtrain::KeyValueType::compute);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
