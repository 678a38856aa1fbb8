// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "core/data/data_cache.h"
#include "core/data/samples/dataset.h"
#include "core/data/validation_sets.h"
#include "core/recipe/recipe.h"
#include "parallel/comm/communicator.h"

namespace llmtrain {

// Validation data that have a loss of their own.
struct ValidationSet : ValidationSources {
  Dataset data;
};

// The name of the set by which a run is judged: training.judged_by, else that of the first; empty without names.
std::string judged_name(const Recipe& recipe);

// What a run reads.
struct RunData {
  Dataset train;
  std::vector<ValidationSet> validation{};  // none where the recipe names none
  std::size_t judged = 0;                   // the set by which the run is judged
};

// Opens the data that the recipe names, and makes what it needs of them in the cache, from which it removes what
// earlier starts have made of other data. Collective over the processes that share the cache; blocks, for as long as it
// takes to tokenise. Throws Error if files cannot be used, and stopped_while().
RunData open_run_data(const Recipe& recipe, const DataCache& cache, const WorkMonitor& monitor = {});

// A cache in a folder that all ranks see, made by the first one. `is_asked_to_stop` is called on that one, by another
// thread; the communicator outlives the cache.
DataCache shared_data_cache(Communicator& communicator, const std::filesystem::path& folder,
                            std::function<bool()> is_asked_to_stop);

}  // namespace llmtrain
