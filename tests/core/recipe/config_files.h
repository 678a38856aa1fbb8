// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <catch2/catch.hpp>
#include <string>

#include "core/base/error.h"
#include "core/recipe/model_from/huggingface_config.h"
#include "tests/core/recipe/good_recipe.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {

// The model of a config.json of transformers.
inline ModelRecipe model_of(const Json& config) {
  const TemporaryDirectory directory;
  directory.write("config.json", config.dump());
  return model_recipe_from_huggingface(directory.path());
}

// What is said of one that cannot be read; empty of others.
inline std::string complaint(const Json& config) {
  try {
    model_of(config);
  } catch (const Error& error) {
    CHECK(error.code() == ExitCode::bad_data);
    return error.what();
  }
  return "";
}

}  // namespace llmtrain::test
