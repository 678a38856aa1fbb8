// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <memory>
#include <span>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/comm/communicator.h"
#include "parallel/device/device.h"
#include "parallel/engine/inference.h"
#include "parallel/engine/trainer.h"

// logits_tool RECIPE OUTPUT TOKEN... [, TOKEN...]...: writes the logits [T, vocab_size] of each sequence as raw
// float32, one after the other, before any training.

namespace {

using Sequences = std::vector<std::vector<std::int64_t>>;

void write_logits(const std::string& recipe_file, const std::string& output, const Sequences& sequences) {
  const llmtrain::Recipe recipe = llmtrain::read_recipe(recipe_file);
  const auto alone = llmtrain::make_solo_communicator();
  const auto layout = std::make_shared<const llmtrain::Layout>(llmtrain::Partition::make(recipe, 1));
  llmtrain::Trainer trainer(layout, *alone, llmtrain::choose_device(recipe.cluster.device));
  std::ofstream file(output, std::ios::binary);
  for (const auto& tokens : sequences) {
    const at::Tensor logits = llmtrain::logits_of(trainer.model(), at::tensor(tokens, at::kLong)).contiguous();
    file.write(static_cast<const char*>(logits.const_data_ptr()), static_cast<std::streamsize>(logits.nbytes()));
  }
  if (!file) throw std::runtime_error("cannot write " + output);
}

}  // namespace

int main(int argument_count, char** arguments) {
  if (argument_count < 4) {
    std::cerr << "usage: logits_tool RECIPE OUTPUT TOKEN... [, TOKEN...]...\n";
    return 2;
  }
  try {
    Sequences sequences(1);
    for (const std::string_view argument : std::span(arguments, static_cast<std::size_t>(argument_count)).subspan(3)) {
      if (argument == ",")
        sequences.emplace_back();
      else
        sequences.back().push_back(std::stoll(std::string(argument)));
    }
    write_logits(arguments[1], arguments[2], sequences);
  } catch (const std::exception& error) {
    std::cerr << error.what() << '\n';
    return 1;
  }
}
