// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "core/jinja/values/value.h"

namespace llmtrain::jinja {

// A group of the filter groupby: a pair whose parts are also called grouper and list.
Value make_group(Value grouper, Value list);

}  // namespace llmtrain::jinja
