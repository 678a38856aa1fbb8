// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nlohmann/json.hpp>

#include "core/body/body.h"

namespace llmtrain::body::test {

// The body that settings call "body", such as "bert.layer", of the sizes that they have. Throws std::out_of_range where
// there is none of the name, or it lacks a size.
Body named_body(const nlohmann::json& settings);

}  // namespace llmtrain::body::test
