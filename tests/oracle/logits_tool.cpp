// SPDX-License-Identifier: Apache-2.0
#include <ATen/ATen.h>

#include <cstdint>
#include <exception>
#include <fstream>
#include <iostream>
#include <stdexcept>
#include <string>
#include <vector>

#include "core/recipe/recipe_io.h"
#include "parallel/engine/evaluation.h"
#include "tests/parallel/engine/lone_trainer.h"

// logits_tool RECIPE OUTPUT TOKEN...: writes the logits [T, vocab_size] of the model that the recipe starts from as raw float32.

namespace {

void write_logits(const std::string& recipe, const std::string& output, const std::vector<std::int64_t>& tokens) {
  llmtrain::test::LoneTrainer trainer(llmtrain::read_recipe(recipe));
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
