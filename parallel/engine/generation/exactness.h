// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string_view>

#include "parallel/engine/local_model.h"

namespace llmtrain {

// Whether passes of this model under kernels::SeparateRows give each token the same bits, however many tokens they have
// and whether keys and values come from a cache. Throws Error(bad_recipe) that names the key where they do not; `asker`
// is the flag that asks for it.
void require_exactness(const LocalModel& model, std::string_view asker);

// The same of passes over tokens of texts that grow, of which experts drop none, against passes of single tokens.
void require_rows_apart(const LocalModel& model, std::string_view asker);

}  // namespace llmtrain
