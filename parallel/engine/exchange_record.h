// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "parallel/engine/local_model.h"

namespace llmtrain {

// What a run has found out about the exchanges of its experts (parallel/shard/exchange_tuner.h), so that a resumed run
// need not find it out again. Of models with a tuner.

// As JSON: the exchange of each bucket, the trials that it follows from, and the layout for which it holds.
std::string exchange_record(const LocalModel& model);

// Goes on with a record's trials. False where it is not a record, or that of another layout or batch; nothing is
// changed then.
bool use_exchange_record(const LocalModel& model, std::string_view text);

// A bucket's exchange in a sentence: "experts exchange rows in 2 parts, linearly, where …".
std::string exchange_text(const ExchangeTuner& tuner, std::size_t bucket);

}  // namespace llmtrain
