// SPDX-License-Identifier: Apache-2.0
#include "parallel/run/tensorboard_writer.h"

#include <unistd.h>

#include <array>
#include <bit>
#include <chrono>
#include <string>

namespace llmtrain {
namespace {

// Protocol buffers' wire types.
enum class Wire { varint = 0, eight_bytes = 1, bytes = 2, four_bytes = 5 };

constexpr std::array<std::uint32_t, 256> make_crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    table[i] = i;
    for (int bit = 0; bit < 8; ++bit) table[i] = (table[i] >> 1) ^ ((table[i] & 1) != 0 ? 0x82F63B78u : 0u);
  }
  return table;
}

constexpr auto crc_table = make_crc_table();

// CRCs of data that contain CRCs are weak, so records store them rotated and offset (TensorFlow's masked CRC).
std::uint32_t masked_crc(std::string_view bytes) { return std::rotr(crc32c(bytes), 15) + 0xA282EAD8u; }

void put_little_endian(std::string& out, std::uint64_t bits, int bytes) {
  for (int i = 0; i < bytes; ++i) out.push_back(static_cast<char>(bits >> (8 * i)));
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out.push_back(static_cast<char>(value | 0x80));
  out.push_back(static_cast<char>(value));
}

void put_key(std::string& out, std::uint64_t field, Wire wire) {
  put_varint(out, field << 3 | static_cast<std::uint64_t>(wire));
}

void put_integer(std::string& out, std::uint64_t field, std::int64_t value) {
  put_key(out, field, Wire::varint);
  put_varint(out, static_cast<std::uint64_t>(value));
}

void put_bytes(std::string& out, std::uint64_t field, std::string_view bytes) {
  put_key(out, field, Wire::bytes);
  put_varint(out, bytes.size());
  out += bytes;
}

// tensorflow.Event: wall_time = 1, step = 2, file_version = 3, summary = 5, session_log = 7.
std::string make_event(std::int64_t step, std::uint64_t field, std::string_view content) {
  const std::chrono::duration<double> now = std::chrono::system_clock::now().time_since_epoch();
  std::string event;
  put_key(event, 1, Wire::eight_bytes);
  put_little_endian(event, std::bit_cast<std::uint64_t>(now.count()), 8);
  put_integer(event, 2, step);
  put_bytes(event, field, content);
  return event;
}

// tensorflow.Summary.Value: tag = 1, simple_value = 2.
std::string make_value(const TensorboardScalar& scalar) {
  std::string value;
  put_bytes(value, 1, scalar.tag);
  put_key(value, 2, Wire::four_bytes);
  put_little_endian(value, std::bit_cast<std::uint32_t>(static_cast<float>(scalar.value)), 4);
  return value;
}

std::filesystem::path new_file(const std::filesystem::path& directory) {
  std::array<char, 256> host{};
  if (::gethostname(host.data(), host.size() - 1) != 0 || host[0] == '\0') host = {"localhost"};
  const auto now = std::chrono::system_clock::now().time_since_epoch();
  const std::string stem = "events.out.tfevents." +
                           std::to_string(std::chrono::duration_cast<std::chrono::seconds>(now).count()) + "." +
                           host.data() + "." + std::to_string(::getpid()) + ".";
  // A process may resume within a second: the number keeps names unique.
  int number = 0;
  while (std::filesystem::exists(directory / (stem + std::to_string(number)))) ++number;
  return directory / (stem + std::to_string(number));
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) noexcept {
  std::uint32_t crc = 0xFFFFFFFFu;
  for (const char byte : bytes) crc = (crc >> 8) ^ crc_table[(crc ^ static_cast<unsigned char>(byte)) & 0xFF];
  return ~crc;
}

TensorboardWriter::TensorboardWriter(const std::filesystem::path& directory, std::int64_t first_step)
    : file_(new_file(directory)) {
  // TensorBoard expects this version record at the start of a file.
  write_record(make_event(0, 3, "brain.Event:2"));
  std::string session;
  put_integer(session, 1, 1);  // tensorflow.SessionLog: status = START, which discards older points from this step on
  write_record(make_event(first_step, 7, session));
}

void TensorboardWriter::write(std::int64_t step, std::initializer_list<TensorboardScalar> scalars) {
  std::string summary;
  for (const TensorboardScalar& scalar : scalars) put_bytes(summary, 1, make_value(scalar));
  write_record(make_event(step, 5, summary));
}

// TFRecord: length, masked CRC of the length, data, masked CRC of the data.
void TensorboardWriter::write_record(std::string_view data) {
  std::string record;
  put_little_endian(record, data.size(), 8);
  put_little_endian(record, masked_crc(record), 4);
  record += data;
  put_little_endian(record, masked_crc(data), 4);
  file_.append(record);
}

}  // namespace llmtrain
