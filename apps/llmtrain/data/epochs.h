// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "core/data/data_cache.h"
#include "core/recipe/recipe_io.h"

namespace llmtrain::app {

// What a recipe's epochs are counted with.
struct EpochCount {
  // Keeps what is made of the data in the cache of the recipe's run, which `run` takes it from; otherwise it is
  // made in memory.
  bool keeps_tokens = false;
  // Whether to end soon with stopped_while(); asked often.
  DataCache::Stops stops = [] { return false; };
};

// The steps that read each sample of data.train as often as training.epochs says, the last one filled with what follows
// in the order of the data: ⌈epochs × samples ÷ batch.global⌉, or as many as batch.growth makes them. Opens the data
// and blocks, for as long as it takes to tokenise them; the same data are opened once in a process, whatever else is
// changed. `file` names the recipe, which must have epochs and no steps. Throws what a Dataset throws, and
// Error(bad_recipe) where there are no data, where there are more steps than a run may have, and where the run that
// goes on has made steps of another size.
std::int64_t steps_of_epochs(const std::string& file, const Recipe& recipe, const EpochCount& count = {});

// read_recipe(), with training.epochs turned into the training.steps that steps_of_epochs() finds. A recipe with steps
// is returned as it is.
Recipe read_counted_recipe(const std::string& file, const std::vector<Override>& overrides,
                           const EpochCount& count = {});

}  // namespace llmtrain::app
