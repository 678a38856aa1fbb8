// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// What RuntimeInterface::export_model() and import_model() do: weights pass from one format to the other in pieces, so
// that memory does not grow with the model. The source is verified before anything is written. Throws Error(bad_data)
// for damaged sources and such as are not of the recipe's model, Error(bad_recipe) for models that the format cannot
// express, Error(cannot_write).
void export_checkpoint(const ExportRequest& request);
void import_checkpoint(const ImportRequest& request);

}  // namespace llmtrain
