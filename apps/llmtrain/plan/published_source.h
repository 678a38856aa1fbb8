// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>

#include "parallel/plan/report/explanation.h"

namespace llmtrain::app {

// The NAME of a source "published:NAME"; none of another one, such as a run's directory ("./published:x" is one).
std::optional<std::string> published_name(const std::string& source);

// Plans the recipe of a published measurement with what its source states of the devices, and fills in all that an
// explanation says of its source. Throws Error(bad_recipe) for an unknown name, with the nearest.
void explain_published(Explanation& explanation, const std::string& name);

// Prints all published measurements that have a name, by source, as text or JSON: [{"name", "source", "profile",
// "program", "devices", "metric", "value", "unit", "note", "inexact"}].
int list_published(bool json);

}  // namespace llmtrain::app
