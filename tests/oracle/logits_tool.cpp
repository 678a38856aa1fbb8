// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/comm/communicator.h"
#include "parallel/device/device.h"
#include "parallel/engine/inference.h"
#include "parallel/engine/trainer.h"

// logits_tool RECIPE OUTPUT TOKEN...: writes the logits [T, vocab_size] as raw float32, before any training.

namespace {

void write_logits(const std::string& recipe_file, const std::string& output, const std::vector<std::int64_t>& tokens) {
  const llmtrain::Recipe recipe = llmtrain::read_recipe(recipe_file);
  const auto alone = llmtrain::make_solo_communicator();
  const auto layout = std::make_shared<const llmtrain::Layout>(llmtrain::Partition::make(recipe, 1));
  llmtrain::Trainer trainer(layout, *alone, llmtrain::choose_device(recipe.cluster.device));
  const at::Tensor logits = llmtrain::logits_of(trainer.model(), at::tensor(tokens, at::kLong)).contiguous();
  std::ofstream file(output, std::ios::binary);
  file.write(static_cast<const char*>(logits.const_data_ptr()), static_cast<std::streamsize>(logits.nbytes()));
  if (!file) throw std::runtime_error("cannot write " + output);
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 4) {
    std::cerr << "usage: logits_tool RECIPE OUTPUT TOKEN...\n";
    return 2;
  }
  try {
    std::vector<std::int64_t> tokens;
    for (int i = 3; i < argument_count; ++i) tokens.push_back(std::stoll(arguments[i]));
    write_logits(arguments[1], arguments[2], tokens);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
