// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>
#include <vector>

#include "parallel/runtime/runtime_interface.h"

namespace llmtrain::app {

// What `eval` prints of the results of the request's data, which it has at least one of: of one its figures, of several
// a row each.
std::string evaluation_as_text(const EvaluateRequest& request, const std::vector<EvaluateResult>& results);
std::string evaluation_as_json(const EvaluateRequest& request, const std::vector<EvaluateResult>& results);

}  // namespace llmtrain::app
