// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <string>

namespace llmtrain {

// What a folder's disk reads and writes in turns while a ScratchStream passes through a file of so many bytes, for at
// least so long: bytes per second, both ways together. The file is written once before, as blocks that never were need
// not be read from anywhere. Blocks until done. Throws as ScratchFile does, and Error(cannot_write) that names `key`
// where the file would be in memory, or be read from the system's page cache, which says nothing of a disk.
double scratch_bandwidth(const std::filesystem::path& folder, std::int64_t bytes, std::chrono::duration<double> time,
                         const std::string& key);

}  // namespace llmtrain
