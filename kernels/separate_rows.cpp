// SPDX-License-Identifier: Apache-2.0
#include "kernels/separate_rows.h"

namespace llmtrain::kernels {
namespace {

thread_local bool is_separating = false;

}  // namespace

SeparateRows::SeparateRows(bool applies) : before_(is_separating) { is_separating = is_separating || applies; }

SeparateRows::~SeparateRows() { is_separating = before_; }

bool separates_rows() { return is_separating; }

}  // namespace llmtrain::kernels
