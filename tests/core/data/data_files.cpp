// SPDX-License-Identifier: Apache-2.0
#include "tests/core/data/data_files.h"

#include <algorithm>
#include <catch2/catch.hpp>
#include <numeric>
#include <span>

namespace llmtrain::test {

std::string llmc_header(std::int32_t magic, std::int32_t version, std::int32_t count) {
  std::string header = little_endian(magic) + little_endian(version) + little_endian(count);
  header.resize(1024, '\0');
  return header;
}

std::string megatron_index(const IndexParts& parts) {
  const auto sequences = static_cast<std::uint64_t>(parts.lengths.size());
  std::string index = parts.magic + little_endian(parts.version) + little_endian(parts.code);
  index += little_endian(sequences) + little_endian(sequences + 1);
  for (const std::int32_t length : parts.lengths) index += little_endian(length);
  std::int64_t offset = 0;
  for (const std::int32_t length : parts.lengths) {
    index += little_endian(offset);
    offset += length * static_cast<std::int64_t>(parts.token_bytes);
  }
  for (std::uint64_t mark = 0; mark <= sequences; ++mark) index += little_endian(mark);
  return index;
}

Dataset open(const std::vector<DataSource>& sources, const DatasetParts& parts) {
  return {sources,       {parts.tokenizer}, parts.sequence_length, parts.vocab_size,
          parts.shuffle, parts.seed,        "/data/train"};
}

Dataset open(const std::string& path, const DatasetParts& parts) { return open({DataSource{path, 1}}, parts); }

Tokens sample(const Dataset& dataset, std::int64_t number, std::int64_t sequence_length, std::int64_t easiest_percent) {
  Tokens tokens(static_cast<std::size_t>(sequence_length), -1), targets(tokens);
  FieldMemory memory;
  memory.set(BatchField::token_ids, std::span(tokens));
  memory.set(BatchField::targets, std::span(targets));
  dataset.read_easiest(easiest_percent, number, memory);
  if (!std::equal(tokens.begin() + 1, tokens.end(), targets.begin())) FAIL("targets are not the tokens that follow");
  tokens.push_back(targets.back());
  return tokens;
}

Tokens range(std::int64_t first, std::int64_t count) {
  Tokens tokens(static_cast<std::size_t>(count));
  std::iota(tokens.begin(), tokens.end(), first);
  return tokens;
}

std::string require_error(ExitCode code, const std::vector<std::string>& parts, const std::function<void()>& action) {
  std::string message;
  try {
    action();
    FAIL("no error was thrown");
  } catch (const Error& error) {
    message = error.what();
    INFO(message);
    CHECK(static_cast<int>(error.code()) == static_cast<int>(code));
    for (const std::string& part : parts) CHECK_THAT(message, Catch::Matchers::Contains(part));
  }
  return message;
}

}  // namespace llmtrain::test
