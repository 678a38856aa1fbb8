// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "core/base/error.h"
#include "core/data/samples/dataset.h"

namespace llmtrain::test {

using Tokens = std::vector<std::int64_t>;

// Little-endian integers, as files store them.
template <std::integral Integer>
std::string little_endian(Integer value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) {
    bytes.push_back(static_cast<char>(static_cast<std::uint64_t>(value) >> (8 * i) & 0xFF));
  }
  return bytes;
}

template <std::integral Integer>
std::string little_endian(const Tokens& values) {
  std::string bytes;
  for (const std::int64_t value : values) bytes += little_endian(static_cast<Integer>(value));
  return bytes;
}

// llm.c's header: 256 int32, of which three are used.
std::string llmc_header(std::int32_t magic, std::int32_t version, std::int32_t count);

// Megatron-LM's index of sequences with these lengths, each its own document.
struct IndexParts {
  std::string magic{"MMIDIDX\0\0", 9};
  std::uint64_t version = 1;
  std::uint8_t code = 8;
  std::uint64_t token_bytes = 2;
  std::vector<std::int32_t> lengths;
};
std::string megatron_index(const IndexParts& parts);

struct DatasetParts {
  std::int64_t sequence_length = 4;
  std::int64_t vocab_size = 65536;
  bool shuffle = false;
  std::int64_t seed = 1234;
  TokenizerRecipe tokenizer{};
};
Dataset open(const std::vector<DataSource>& sources, const DatasetParts& parts);
Dataset open(const std::string& path, const DatasetParts& parts);

// A sample's tokens and its last target; the others are required to be the tokens that follow.
Tokens sample(const Dataset& dataset, std::int64_t number, std::int64_t sequence_length,
              std::int64_t easiest_percent = 100);

// first, first + 1, …, first + count − 1
Tokens range(std::int64_t first, std::int64_t count);

// Runs `action`, requires an Error with `code` whose message contains all of `parts`, and returns the message.
std::string require_error(ExitCode code, const std::vector<std::string>& parts, const std::function<void()>& action);

}  // namespace llmtrain::test
