// SPDX-License-Identifier: Apache-2.0
#include "core/scratch/scratch_bandwidth.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <span>

#include "core/base/error.h"
#include "core/scratch/scratch_file.h"
#include "core/scratch/scratch_stream.h"

namespace llmtrain {
namespace {

using Clock = std::chrono::steady_clock;

// That of a piece of Adam's states in fp32, which the updates of training move at once.
constexpr std::int64_t block_bytes = std::int64_t{12} << 20;

void check_disk(const ScratchFile& file, const std::string& key) {
  const char* reason = file.is_in_memory() ? "is in memory, not on a disk"
                       : !file.is_direct() ? "cannot be read past the page cache, which is not as slow as the disk"
                                           : nullptr;
  if (reason != nullptr)
    throw Error(ExitCode::cannot_write,
                fmt::format("{}: {}: {}; name another folder, or write host.disk_bandwidth into the profile by hand",
                            key, file.folder().string(), reason));
}

// Changes every block of the file once; returns when the last has been written.
void change_all(const ScratchFile& file, ScratchStream& stream, std::span<std::byte> last) {
  const auto block_at = [&](std::int64_t offset) {
    return ScratchBlock{offset, std::min(block_bytes, file.bytes() - offset)};
  };
  for (std::int64_t offset = 0; offset < file.bytes(); offset += block_bytes) {
    const std::int64_t after = offset + block_bytes;
    stream.begin(block_at(offset), after < file.bytes() ? std::optional(block_at(after)) : std::nullopt);
    stream.end();
  }
  // It is behind all writes.
  stream.read(0, last);
}

}  // namespace

double scratch_bandwidth(const std::filesystem::path& folder, std::int64_t bytes, std::chrono::duration<double> time,
                         const std::string& key) {
  const ScratchFile file(folder, bytes, key);
  check_disk(file, key);
  const auto size = static_cast<std::size_t>(2 * block_bytes + ScratchFile::alignment);
  const std::unique_ptr<std::byte, void (*)(void*)> memory(
      static_cast<std::byte*>(std::aligned_alloc(ScratchFile::alignment, size)), std::free);
  // Drives that compress would be faster with zeros.
  std::uint64_t random = 1;
  for (std::size_t at = 0; at < size; at += sizeof(random)) {
    random = random * 6364136223846793005U + 1442695040888963407U;  // Knuth's, as in MMIX
    std::memcpy(memory.get() + at, &random, sizeof(random));
  }
  const std::span all(memory.get(), size);
  const auto block = static_cast<std::size_t>(block_bytes);
  const std::span last = all.subspan(2 * block);
  for (std::int64_t offset = 0; offset < file.bytes(); offset += block_bytes)
    file.write(offset, all.first(static_cast<std::size_t>(std::min(block_bytes, file.bytes() - offset))));
  ScratchStream stream(file, {all.first(block), all.subspan(block, block)});
  const auto start = Clock::now();
  std::chrono::duration<double> elapsed{};
  for (std::int64_t passes = 1; elapsed < time || passes == 1; ++passes) {
    change_all(file, stream, last);
    elapsed = Clock::now() - start;
  }
  return static_cast<double>(stream.bytes_read() + stream.bytes_written()) / elapsed.count();
}

}  // namespace llmtrain
