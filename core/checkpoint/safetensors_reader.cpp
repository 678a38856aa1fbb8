// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <limits>
#include <utility>

#include "core/checkpoint/safetensors.h"
#include "core/checkpoint/safetensors_header.h"
#include "core/checkpoint/utf8.h"

namespace llmtrain {
namespace {

constexpr std::size_t length_bytes = 8;

std::size_t header_length(std::span<const std::byte> bytes, const std::string& file) {
  if (bytes.size() < length_bytes)
    refuse_safetensors(file, "it has " + std::to_string(bytes.size()) + " bytes, the header's length alone takes 8");
  std::uint64_t length = 0;
  // Little endian whatever the host, and without an aligned load.
  for (std::size_t i = length_bytes; i > 0; --i) length = length << 8 | static_cast<std::uint64_t>(bytes[i - 1]);
  if (length > safetensors_header_limit)
    refuse_safetensors(file, "its header claims " + std::to_string(length) + " bytes, at most 100000000 are allowed");
  // Compared by subtraction: the sum with a hostile length would wrap.
  if (length > bytes.size() - length_bytes)
    refuse_safetensors(file, "its header claims " + std::to_string(length) + " bytes, the file has " +
                                 std::to_string(bytes.size()) + " in all");
  return static_cast<std::size_t>(length);
}

void check_size(const SafetensorsEntry& entry, const std::string& file) {
  const auto bytes = safetensors_bytes(entry.dtype, entry.shape);
  if (!bytes)
    refuse_safetensors(file, "tensor " + quoted_text(entry.name) + " has an unknown dtype (" +
                                 quoted_text(entry.dtype) + ") or an impossible size");
  if (entry.end - entry.begin != static_cast<std::uint64_t>(*bytes))
    refuse_safetensors(file, "tensor " + quoted_text(entry.name) + " needs " + std::to_string(*bytes) +
                                 " bytes, its offsets are " + std::to_string(entry.begin) + " and " +
                                 std::to_string(entry.end));
}

// The tensors follow one another and fill the data exactly: no gap, no overlap, nothing after the last.
void check_layout(std::vector<SafetensorsEntry>& entries, std::size_t data_bytes, const std::string& file) {
  std::sort(entries.begin(), entries.end(), [](const SafetensorsEntry& a, const SafetensorsEntry& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  std::uint64_t next = 0;
  for (const SafetensorsEntry& entry : entries) {
    // Checked before end − begin is computed, which would wrap.
    if (entry.begin != next || entry.end < entry.begin)
      refuse_safetensors(file, "tensor " + quoted_text(entry.name) + " has the offsets " + std::to_string(entry.begin) +
                                   " and " + std::to_string(entry.end) + ", the one before it ends at " +
                                   std::to_string(next));
    check_size(entry, file);
    next = entry.end;
  }
  if (next != data_bytes)
    refuse_safetensors(file, "its tensors take " + std::to_string(next) + " bytes, " + std::to_string(data_bytes) +
                                 " follow the header");
}

}  // namespace

SafetensorsFile::SafetensorsFile(std::filesystem::path file) : path_(std::move(file)), mapped_(path_) {
  const std::string name = path_.string();
  const auto bytes = mapped_.bytes();
  const std::size_t length = header_length(bytes, name);
  const auto* header = reinterpret_cast<const char*>(bytes.data() + length_bytes);
  entries_ = parse_safetensors_header({header, length}, name);
  data_start_ = length_bytes + length;
  check_layout(entries_, bytes.size() - data_start_, name);
  // From the order of the data to that of the names, for find().
  std::sort(entries_.begin(), entries_.end(), [](const auto& a, const auto& b) { return a.name < b.name; });
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found =
      std::lower_bound(entries_.begin(), entries_.end(), name,
                       [](const SafetensorsEntry& entry, std::string_view key) { return entry.name < key; });
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return mapped_.bytes().subspan(data_start_ + entry.begin, entry.end - entry.begin);
}

}  // namespace llmtrain
