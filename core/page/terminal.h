// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>

namespace llmtrain {

// Columns of the terminal behind a file descriptor; none where there is no terminal, or it does not say.
std::optional<std::size_t> terminal_columns(int descriptor);

}  // namespace llmtrain
