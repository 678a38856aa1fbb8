// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <filesystem>
#include <string>

namespace llmtrain {

// Writes a run's metrics and recipe into a folder of MLflow's file store (mlflow.store.tracking.file_store of MLflow
// 3.17; the layout has been the same since 1.0), as a run of the experiment `experiment`, which is made where the
// folder has none of that name. The MLflow run's id follows from the run's directory, so that a later export of the
// same one replaces it. Parameters are the keys of recipe.json, metrics the columns of MetricsTable, with letters that
// MLflow refuses as underscores. metrics.jsonl has no clock: times are counted back from its last change by the steps'
// seconds. The run is finished where it has all of its steps, else running. Returns the folder of the MLflow run.
// Throws Error(missing_input), Error(bad_data), Error(cannot_write).
std::filesystem::path export_to_mlflow(const std::filesystem::path& run, const std::filesystem::path& store,
                                       const std::string& experiment);

}  // namespace llmtrain
