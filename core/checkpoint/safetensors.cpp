// SPDX-License-Identifier: Apache-2.0
#include "core/checkpoint/safetensors.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <future>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/hash.h"
#include "core/checkpoint/safetensors_header.h"
#include "core/json/json_file.h"

namespace llmtrain {
namespace {

struct SafetensorsDtype {
  std::string_view name;
  std::int64_t bits;
};

// By ascending alignment: a file holds its tensors in the opposite order, so that each is aligned to its elements.
constexpr std::array<SafetensorsDtype, 22> safetensors_dtypes{{
    {"BOOL", 8},    {"F4", 4},      {"F6_E2M3", 6}, {"F6_E3M2", 6},     {"U8", 8},          {"I8", 8},
    {"F8_E5M2", 8}, {"F8_E4M3", 8}, {"F8_E8M0", 8}, {"F8_E4M3FNUZ", 8}, {"F8_E5M2FNUZ", 8}, {"I16", 16},
    {"U16", 16},    {"F16", 16},    {"BF16", 16},   {"I32", 32},        {"U32", 32},        {"F32", 32},
    {"C64", 64},    {"F64", 64},    {"I64", 64},    {"U64", 64},
}};

// The dtype's place in the table; none for an unknown name.
std::optional<std::size_t> safetensors_order(std::string_view dtype) {
  const auto found = std::ranges::find(safetensors_dtypes, dtype, &SafetensorsDtype::name);
  if (found == safetensors_dtypes.end()) return std::nullopt;
  return static_cast<std::size_t>(found - safetensors_dtypes.begin());
}

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
    refuse_safetensors(file, fmt::format("its header claims {} bytes, the file has {} in all", length, bytes.size()));
  return static_cast<std::size_t>(length);
}

void check_size(const SafetensorsEntry& entry, const std::string& file) {
  const auto bytes = safetensors_bytes(entry.dtype, entry.shape);
  if (!bytes)
    refuse_safetensors(file, "tensor " + quoted_text(entry.name) + " has an unknown dtype (" +
                                 quoted_text(entry.dtype) + ") or an impossible size");
  if (entry.end - entry.begin != static_cast<std::uint64_t>(*bytes))
    refuse_safetensors(file, fmt::format("tensor {} needs {} bytes, its offsets are {} and {}", quoted_text(entry.name),
                                         *bytes, entry.begin, entry.end));
}

// The tensors follow one another and fill the data exactly: no gap, no overlap, nothing after the last.
void check_layout(std::vector<SafetensorsEntry>& entries, std::size_t data_bytes, const std::string& file) {
  std::ranges::sort(entries, {}, [](const SafetensorsEntry& entry) { return std::pair(entry.begin, entry.end); });
  std::uint64_t next = 0;
  for (const SafetensorsEntry& entry : entries) {
    // Checked before end − begin is computed, which would wrap.
    if (entry.begin != next || entry.end < entry.begin)
      refuse_safetensors(file, fmt::format("tensor {} has the offsets {} and {}, the one before it ends at {}",
                                           quoted_text(entry.name), entry.begin, entry.end, next));
    check_size(entry, file);
    next = entry.end;
  }
  if (next != data_bytes)
    refuse_safetensors(file, fmt::format("its tensors take {} bytes, {} follow the header", next, data_bytes));
}

std::int64_t checked_bytes(const SafetensorsTensor& tensor) {
  const auto bytes = safetensors_bytes(tensor.dtype, tensor.shape);
  const bool is_given = tensor.data != nullptr || tensor.content;
  if (!bytes || (!is_given && *bytes > 0) || tensor.name.empty() || tensor.name == "__metadata__")
    throw Error(ExitCode::internal_error, "the tensor \"" + tensor.name + "\" of dtype " + tensor.dtype +
                                              " cannot be written to a safetensors file");
  return *bytes;
}

// The strict reader must accept what is written: no duplicate names, none with control characters.
void check_header(const std::string& header, const std::filesystem::path& file) {
  try {
    parse_safetensors_header(header, file.string());
  } catch (const Error& error) {
    throw Error(ExitCode::internal_error, error.what());
  }
}

// The same order as the reference implementation: equal tensors give equal files.
void sort_as_reference(std::vector<SafetensorsTensor>& tensors) {
  std::sort(tensors.begin(), tensors.end(), [](const SafetensorsTensor& a, const SafetensorsTensor& b) {
    const auto first = safetensors_order(a.dtype);
    const auto second = safetensors_order(b.dtype);
    return first != second ? first > second : a.name < b.name;
  });
}

std::string header_of(const std::vector<SafetensorsTensor>& tensors) {
  nlohmann::ordered_json::object_t header;
  header.emplace_back("__metadata__", nlohmann::ordered_json{{"format", "pt"}});
  std::int64_t offset = 0;
  for (const SafetensorsTensor& tensor : tensors) {
    const std::int64_t end = offset + checked_bytes(tensor);
    nlohmann::ordered_json entry;
    entry["dtype"] = tensor.dtype;
    entry["shape"] = tensor.shape;
    entry["data_offsets"] = {offset, end};
    // Appended directly: inserting by key would compare with every earlier one. check_header() finds duplicates.
    header.emplace_back(tensor.name, std::move(entry));
    offset = end;
  }
  std::string text = nlohmann::ordered_json(std::move(header)).dump();
  // Padding aligns the data, which starts right after the header.
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

// What a file consists of.
struct Content {
  std::string start;  // the header's length and the header
  std::vector<SafetensorsTensor> tensors;

  std::int64_t bytes() const;
  void hand_to(const WriteBytes& take) const;
};

std::int64_t Content::bytes() const {
  auto total = static_cast<std::int64_t>(start.size());
  for (const SafetensorsTensor& tensor : tensors) total += checked_bytes(tensor);
  return total;
}

void Content::hand_to(const WriteBytes& take) const {
  take(start.data(), start.size());
  for (const SafetensorsTensor& tensor : tensors) {
    const std::int64_t bytes = checked_bytes(tensor);
    if (!tensor.content) {
      take(tensor.data, static_cast<std::size_t>(bytes));
      continue;
    }
    std::int64_t given = 0;
    tensor.content([&](const void* piece, std::size_t count) {
      take(piece, count);
      given += static_cast<std::int64_t>(count);
    });
    if (given != bytes)
      throw Error(ExitCode::internal_error,
                  fmt::format("the content of \"{}\" has {} bytes, its shape takes {}", tensor.name, given, bytes));
  }
}

// Reads every byte once: hashed from memory, written from the processor's cache.
std::string write_and_hash(FileWriter& writer, const Content& content) {
  Sha256 hash;
  content.hand_to([&](const void* bytes, std::size_t count) {
    constexpr std::size_t fits_cache = 1 << 20;
    const auto* next = static_cast<const char*>(bytes);
    for (std::size_t done = 0; done < count; done += fits_cache) {
      const std::size_t now = std::min(fits_cache, count - done);
      hash.update(next + done, now);
      writer.write(next + done, now);
    }
  });
  writer.close();
  return hash.hexadecimal();
}

// Takes the longer of the two times, instead of both: each is about as long as the disk's. One thread hashes all of the
// file, because waiting for the other at each tensor would cost a third of what is gained.
std::string write_beside_hashing(FileWriter& writer, const Content& content) {
  Sha256 hash;
  std::atomic<bool> has_failed = false;
  // If the system gives no further thread, this one hashes in the end.
  auto hashing = std::async(std::launch::async | std::launch::deferred, [&] {
    content.hand_to([&](const void* bytes, std::size_t count) {
      if (!has_failed) hash.update(bytes, count);
    });
  });
  try {
    content.hand_to([&](const void* bytes, std::size_t count) { writer.write(bytes, count); });
    writer.close();
  } catch (...) {
    has_failed = true;  // or the error would wait for the rest of the hash
    throw;
  }
  hashing.get();
  return hash.hexadecimal();
}

std::string write_content(FileWriter& writer, const Content& content) {
  // Milliseconds of hashing, beside which a thread costs nothing.
  constexpr std::int64_t worth_a_thread = 8 << 20;
  // Tensors that are handed over in pieces are asked once.
  const bool is_in_memory =
      std::ranges::none_of(content.tensors, [](const auto& tensor) { return tensor.content != nullptr; });
  return is_in_memory && content.bytes() >= worth_a_thread ? write_beside_hashing(writer, content)
                                                           : write_and_hash(writer, content);
}

std::string bytes_of(std::size_t length) {
  std::string bytes(length_bytes, '\0');
  for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(length >> (8 * i));
  return bytes;
}

}  // namespace

std::optional<std::int64_t> safetensors_bits(std::string_view dtype) {
  const auto order = safetensors_order(dtype);
  if (!order) return std::nullopt;
  return safetensors_dtypes[*order].bits;
}

std::optional<std::int64_t> safetensors_bytes(std::string_view dtype, std::span<const std::int64_t> shape) {
  const auto bits = safetensors_bits(dtype);
  if (!bits) return std::nullopt;
  std::int64_t total = 1;
  for (const std::int64_t dimension : shape)
    // Shapes come from files: a product that wraps could match a small tensor's bytes.
    if (dimension < 0 || __builtin_mul_overflow(total, dimension, &total)) return std::nullopt;
  if (__builtin_mul_overflow(total, *bits, &total) || total % 8 != 0) return std::nullopt;
  return total / 8;
}

SafetensorsFile::SafetensorsFile(std::filesystem::path file) : path_(std::move(file)), mapped_(path_) {
  const std::string name = path_.string();
  const auto bytes = mapped_.bytes();
  const std::size_t length = header_length(bytes, name);
  const auto* header = reinterpret_cast<const char*>(bytes.data() + length_bytes);
  entries_ = parse_safetensors_header({header, length}, name);
  data_start_ = length_bytes + length;
  check_layout(entries_, bytes.size() - data_start_, name);
  // From the order of the data to that of the names, for find().
  std::ranges::sort(entries_, {}, &SafetensorsEntry::name);
}

const SafetensorsEntry* SafetensorsFile::find(std::string_view name) const {
  const auto found = std::ranges::lower_bound(entries_, name, {}, &SafetensorsEntry::name);
  return found != entries_.end() && found->name == name ? &*found : nullptr;
}

std::span<const std::byte> SafetensorsFile::bytes(const SafetensorsEntry& entry) const {
  return mapped_.bytes().subspan(data_start_ + entry.begin, entry.end - entry.begin);
}

WrittenFile write_safetensors(const std::filesystem::path& file, std::vector<SafetensorsTensor> tensors) {
  sort_as_reference(tensors);
  const std::string header = header_of(tensors);
  if (header.size() > safetensors_header_limit)
    throw Error(ExitCode::internal_error, file.string() + ": too many tensors for the header of one safetensors file");
  check_header(header, file);

  FileWriter writer(file);
  const Content content{bytes_of(header.size()) + header, std::move(tensors)};
  return {content.bytes(), write_content(writer, content)};
}

}  // namespace llmtrain
