// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "parallel/engine/local_model.h"

namespace llmtrain {

// What a run has found out about the exchanges of its experts (parallel/shard/exchange_tuner.h) and the split of their
// products (split_tuner.h), so that a resumed run need not find it out again.

// Whether the recipe leaves anything of it open.
bool tries_exchanges(const LocalModel& model);

// As JSON: the split, the exchange of each bucket, the trials that they follow from, and the layout for which they
// hold. Of models that try exchanges, as the next one.
std::string exchange_record(const LocalModel& model);

// Goes on with a record's trials. False where it is not a record, or that of another layout or batch; nothing is
// changed then.
bool use_exchange_record(const LocalModel& model, std::string_view text);

// A bucket's exchange in a sentence: "experts exchange rows in 2 parts, linearly, where …".
std::string exchange_text(const ExchangeTuner& tuner, std::size_t bucket);
// The split: "experts are split over 2 ranks: …".
std::string split_text(const SplitTuner& tuner);

}  // namespace llmtrain
