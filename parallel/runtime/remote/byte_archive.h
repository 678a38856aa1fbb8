// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>
#include <vector>

#include "core/base/error.h"

namespace llmtrain::remote {

// What is written to other processes of the same program on the same machine, and read from them: numbers are their
// bytes, so that every bit of a float arrives, lists have their length in front. One function
//   template <class Archive> void describe(Archive& archive, Field<Archive, Message>& message) { archive(message.a); }
// both writes and reads a struct, so that the two cannot differ. nlohmann's MessagePack and CBOR would build a tree of
// every token, recurse as deep as the bytes say, and keep no bits of NaNs.
template <class Archive, class Value>
using Field = std::conditional_t<Archive::writes, const Value, Value>;

template <class Value>
concept Number = std::is_arithmetic_v<Value> && !std::is_same_v<Value, bool>;

class ByteWriter {
 public:
  static constexpr bool writes = true;

  template <class... Values>
  void operator()(const Values&... values) {
    (write(values), ...);
  }
  std::string take() { return std::move(bytes_); }

 private:
  template <Number Value>
  void write(Value value) {
    append(&value, sizeof value);
  }
  void write(bool value) { write(static_cast<std::uint8_t>(value)); }
  template <class Value>
  requires std::is_enum_v<Value>
  void write(Value value) { write(static_cast<std::int64_t>(value)); }
  void write(const std::string& text) {
    write(static_cast<std::uint64_t>(text.size()));
    append(text.data(), text.size());
  }
  template <class Value>
  void write(const std::optional<Value>& value) {
    write(value.has_value());
    if (value) write(*value);
  }
  template <class Value>
  void write(const std::vector<Value>& values) {
    write(static_cast<std::uint64_t>(values.size()));
    if constexpr (Number<Value>) {
      append(values.data(), values.size() * sizeof(Value));
    } else {
      for (const Value& value : values) write(value);
    }
  }
  template <class Value>
  requires(std::is_class_v<Value>) void write(const Value& value) { describe(*this, value); }
  void append(const void* memory, std::size_t count) { bytes_.append(static_cast<const char*>(memory), count); }

  std::string bytes_;
};

// Throws Error(internal_error) for bytes that are no such message: whatever they are, it allocates a small multiple of
// their number and does not recurse deeper than the struct that is read.
class ByteReader {
 public:
  static constexpr bool writes = false;

  // The bytes outlive this.
  explicit ByteReader(std::string_view bytes) : bytes_(bytes) {}

  template <class... Values>
  void operator()(Values&... values) {
    (read(values), ...);
  }
  // Throws where bytes are left.
  void finish() const {
    if (!bytes_.empty()) refuse("has bytes behind its end");
  }
  [[noreturn]] static void refuse(const std::string& what) {
    throw Error(ExitCode::internal_error, "a message between the server and the model's process " + what);
  }

 private:
  template <Number Value>
  void read(Value& value) {
    take(&value, sizeof value);
  }
  void read(bool& value) {
    std::uint8_t byte = 0;
    read(byte);
    if (byte > 1) refuse("has neither yes nor no where one of them must be");
    value = byte != 0;
  }
  // last_value(archive, Value{}), beside describe(), is the greatest one.
  template <class Value>
  requires std::is_enum_v<Value>
  void read(Value& value) {
    std::int64_t number = 0;
    read(number);
    if (number < 0 || number > static_cast<std::int64_t>(last_value(*this, Value{})))
      refuse("has a word that is not known");
    value = static_cast<Value>(number);
  }
  void read(std::string& text) {
    text.resize(count(1));
    take(text.data(), text.size());
  }
  template <class Value>
  void read(std::optional<Value>& value) {
    bool is_there = false;
    read(is_there);
    if (is_there)
      read(value.emplace());
    else
      value.reset();
  }
  template <class Value>
  void read(std::vector<Value>& values) {
    values.clear();
    if constexpr (Number<Value>) {
      values.resize(count(sizeof(Value)));
      take(values.data(), values.size() * sizeof(Value));
    } else {
      // Every element takes at least a byte; memory grows with those that are really there.
      for (std::size_t left = count(1); left > 0; --left) read(values.emplace_back());
    }
  }
  template <class Value>
  requires(std::is_class_v<Value>) void read(Value& value) { describe(*this, value); }

  // A list's number of elements, of at least so many bytes each, for which there is room.
  std::size_t count(std::size_t element) {
    std::uint64_t value = 0;
    read(value);
    if (value > bytes_.size() / element) refuse("is cut off");
    return static_cast<std::size_t>(value);
  }
  void take(void* memory, std::size_t count) {
    if (count > bytes_.size()) refuse("is cut off");
    if (count > 0) std::memcpy(memory, bytes_.data(), count);
    bytes_.remove_prefix(count);
  }

  std::string_view bytes_;
};

}  // namespace llmtrain::remote
