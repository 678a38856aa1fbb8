// SPDX-License-Identifier: Apache-2.0
#include <chrono>
#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>

#include "core/base/elapsed_time.h"
#include "core/recipe/recipe_io.h"
#include "parallel/comm/communicator.h"
#include "parallel/device/device.h"
#include "parallel/engine/data/batch_loader.h"
#include "parallel/engine/trainer.h"

// The training process that scripts/bench and scripts/benchmarks/bench_reading control: it reads the commands "run N",
// "read N" and "memory" from standard input, one per line, and answers each with one line of JSON.

namespace {

using nlohmann::json;

json train(llmtrain::Trainer& trainer, std::int64_t steps) {
  using Clock = std::chrono::steady_clock;
  json seconds = json::array();
  double loss = 0;
  for (std::int64_t i = 0; i < steps; ++i) {
    const auto start = Clock::now();
    loss = trainer.step().loss;
    seconds.push_back(llmtrain::seconds_since(start));
  }
  return {{"seconds", seconds}, {"loss", loss}};
}

// The batches of `step` and the following steps, without training on them; `step` is then that of the next one.
json read_batches(llmtrain::Trainer& trainer, std::int64_t batches, std::int64_t& step) {
  using Clock = std::chrono::steady_clock;
  const llmtrain::Recipe& recipe = trainer.recipe();
  const llmtrain::StepShape shape = trainer.runner().shapes().at(0);
  const llmtrain::DataRank rank =
      llmtrain::data_rank(trainer.model().groups(), shape.sequence_length, trainer.model().fields());
  json seconds = json::array();
  for (std::int64_t i = 0; i < batches; ++i, ++step) {
    const auto start = Clock::now();
    const std::int64_t percent = llmtrain::easiest_percent(recipe.data.curriculum, step);
    const llmtrain::BatchPlace place{step, step * recipe.batch.global, shape, percent};
    const llmtrain::StepSamples samples(trainer.train_data(), recipe.batch, place);
    llmtrain::load_batch(samples, trainer.model().graph().row_losses(), recipe, place, rank, at::kCPU);
    seconds.push_back(llmtrain::seconds_since(start));
  }
  return {{"seconds", seconds}};
}

// VmHWM: the largest resident set this process ever had.
json peak_memory() {
  std::ifstream status("/proc/self/status");
  for (std::string line; std::getline(status, line);) {
    std::istringstream words(line);
    std::string key;
    std::int64_t kibibytes = 0;
    if (words >> key >> kibibytes && key == "VmHWM:") return {{"peak_bytes", kibibytes * 1024}};
  }
  return {{"peak_bytes", 0}};
}

void serve(llmtrain::Trainer& trainer) {
  std::int64_t next_to_read = 0;
  std::cout << json{{"ready", true}} << std::endl;
  for (std::string line; std::getline(std::cin, line);) {
    std::istringstream words(line);
    std::string command;
    std::int64_t steps = 1;
    words >> command >> steps;
    if (command == "memory") {
      std::cout << peak_memory() << std::endl;
    } else {
      std::cout << (command == "read" ? read_batches(trainer, steps, next_to_read) : train(trainer, steps))
                << std::endl;
    }
  }
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count != 2) {
    std::cerr << "usage: step_worker RECIPE\n";
    return 2;
  }
  try {
    llmtrain::prepare_process();
    const llmtrain::Recipe recipe = llmtrain::read_recipe(arguments[1]);
    const auto alone = llmtrain::make_solo_communicator();
    const auto layout = std::make_shared<const llmtrain::Layout>(llmtrain::Partition::make(recipe, 1));
    llmtrain::Trainer trainer(layout, *alone, llmtrain::choose_device(recipe.cluster.device));
    serve(trainer);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
