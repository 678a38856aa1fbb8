// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/inference/evaluation_data.h"

#include <algorithm>

#include "core/base/error.h"
#include "core/base/log.h"
#include "core/data/file_search.h"
#include "core/data/validation_sets.h"

namespace llmtrain::app {
namespace {

// Texts are rolling where nothing asks for packing: nobody knows where the texts of token files begin, and of
// conversations only the answers count. Of texts with hidden tokens only these count.
EvaluationMethod method_for(const Recipe& recipe, const std::vector<DataSource>& sources, bool is_packed) {
  const auto has_tokens = [](const DataSource& source) { return is_token_file(source.path); };
  return is_packed || recipe.data.fine_tuning || recipe.data.masking || recipe.data.labels || recipe.data.spans ||
                 recipe.data.pairs || recipe.data.denoising || recipe.data.images ||
                 std::ranges::any_of(sources, has_tokens)
             ? EvaluationMethod::packed
             : EvaluationMethod::rolling;
}

}  // namespace

std::vector<EvaluationData> evaluation_data(const Recipe& recipe, const std::string& checkpoint,
                                            const std::vector<std::string>& paths, const std::string& key,
                                            bool is_packed) {
  std::vector<EvaluationData> found;
  const auto add = [&](const std::string& name, const std::vector<DataSource>& sources, const std::string& role,
                       std::size_t first_source = 0) {
    found.push_back({name, sources, role, method_for(recipe, sources, is_packed), first_source});
  };
  for (const std::string& path : paths) add(path, {DataSource{path, 1, key}}, "--data");
  if (!found.empty()) return found;
  const DataRecipe& data = recipe.data;
  for (const ValidationSources& set : validation_sets(data.validation))
    add(set.name.empty() ? "data.validation" : set.name, set.sources, "/data/validation", set.first_source);
  if (!found.empty()) return found;
  if (data.train.empty())
    throw Error(ExitCode::missing_input,
                checkpoint + ": its recipe names no data; name a file, folder or glob with --data");
  log().warn("the recipe has no data.validation: this evaluates the data that the model was trained on");
  add("data.train", data.train, "/data/train");
  return found;
}

}  // namespace llmtrain::app
