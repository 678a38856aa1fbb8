// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <filesystem>

namespace llmtrain {

// A file that becomes shorter while it is mapped makes the system send SIGBUS to whoever reads beyond its new end. For
// guarded mappings the process then says which file that was and ends with ExitCode::bad_data; any other SIGBUS goes to
// the handler that was there before. The first mappings are guarded, up to a number that no run reaches.
void guard_mapping(const void* begin, std::size_t bytes, const std::filesystem::path& file) noexcept;
void unguard_mapping(const void* begin) noexcept;

}  // namespace llmtrain
