// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "core/data/samples/left_out.h"
#include "parallel/engine/inference.h"
#include "parallel/runtime/runtime_interface.h"

namespace llmtrain {

// The results of those of the request's data that `places` names, which have the method. Throws what
// with_loaded_model() and opening the data throw, and Error(bad_data) for a loss that is not finite.
std::vector<EvaluateResult> evaluate_texts(const EvaluateRequest& request, std::span<const std::size_t> places);
std::vector<EvaluateResult> evaluate_packed(const EvaluateRequest& request, std::span<const std::size_t> places);

// Warns of each of these behind the data's role.
void warn_of_left_out(const LeftOut& left_out, const EvaluationData& data, std::int64_t sequence_length);

// evaluate() of `count` samples (0: all) with lines on standard error by the first rank.
Evaluation evaluate_with_lines(LocalModel& model, const SampleSource& samples, std::int64_t count, ExpertDrops drops);

// The loss and what follows from it alone.
EvaluateResult result_of(const Evaluation& evaluation, const EvaluateRequest& request);

}  // namespace llmtrain
