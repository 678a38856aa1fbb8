// SPDX-License-Identifier: Apache-2.0
#include "core/token_files/token_file_writer.h"

#include <catch2/catch.hpp>

#include "core/token_files/describe_data.h"
#include "core/token_files/tokenize_files.h"
#include "core/tokenizer/byte_tokenizer.h"
#include "tests/core/data/data_files.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

const std::vector<TokenId> first = {1, 2, 65535};
const std::vector<TokenId> second = {7};

void write_two(const std::filesystem::path& prefix, TokenFileFormat format, std::int64_t vocab_size) {
  TokenFileWriter writer(prefix, format, vocab_size);
  writer.add(first);
  writer.add(second);
  writer.close();
}

std::string with_format(TokenFileFormat format, std::int64_t vocab_size) {
  const TemporaryDirectory folder;
  write_two(folder.path() / "a", format, vocab_size);
  return read_file(folder.path() / "a.bin");
}

}  // namespace

TEST_CASE("Megatron's pair is written as its own code writes it") {
  const TemporaryDirectory folder;
  write_two(folder.path() / "a", TokenFileFormat::megatron, 65500);
  CHECK(read_file(folder.path() / "a.bin") == little_endian<std::int32_t>(Tokens{1, 2, 65535, 7}));
  CHECK(read_file(folder.path() / "a.idx") == megatron_index({.code = 4, .token_bytes = 4, .lengths = {3, 1}}));
  write_two(folder.path() / "b", TokenFileFormat::megatron, 65499);
  CHECK(read_file(folder.path() / "b.bin") == little_endian<std::uint16_t>(Tokens{1, 2, 65535, 7}));
  CHECK(read_file(folder.path() / "b.idx") == megatron_index({.lengths = {3, 1}}));
  CHECK(names_in(folder.path()) == std::set<std::string>{"a.bin", "a.idx", "b.bin", "b.idx"});
}

TEST_CASE("nanoGPT's and llm.c's files are written") {
  const Tokens tokens{1, 2, 65535, 7};
  const std::string small = little_endian<std::uint16_t>(tokens), large = little_endian<std::uint32_t>(tokens);
  CHECK(with_format(TokenFileFormat::nanogpt, 65536) == small);
  CHECK(with_format(TokenFileFormat::llmc, 65536) == llmc_header(20240520, 1, 4) + small);
  CHECK(with_format(TokenFileFormat::llmc, 65537) == llmc_header(20240801, 7, 4) + large);
  require_error(ExitCode::bad_recipe, {"65537", "megatron"}, [] { with_format(TokenFileFormat::nanogpt, 65537); });
}

TEST_CASE("A file that is not finished leaves nothing, and none is replaced") {
  const TemporaryDirectory folder;
  { TokenFileWriter(folder.path() / "a", TokenFileFormat::megatron, 300).add(second); }
  CHECK(names_in(folder.path()).empty());
  folder.write("a.idx", "");
  require_error(ExitCode::cannot_write, {"a.idx", "exists already"},
                [&] { TokenFileWriter(folder.path() / "a.bin", TokenFileFormat::nanogpt, 300); });
}

TEST_CASE("Links that are planted under the names of unfinished files are not written through") {
  const TemporaryDirectory folder;
  const auto other = folder.write("other", "of somebody else");
  const auto partial = folder.path() / "a.bin.partial", index = folder.path() / "a.idx.tmp";
  std::filesystem::create_symlink(other, partial);
  require_error(ExitCode::cannot_write, {"a.bin.partial: is a link, which is not followed; remove it"},
                [&] { write_two(folder.path() / "a", TokenFileFormat::megatron, 300); });
  std::filesystem::remove(partial);
  std::filesystem::create_symlink(other, index);
  write_two(folder.path() / "a", TokenFileFormat::megatron, 300);
  CHECK(read_file(other) == "of somebody else");
  CHECK(names_in(folder.path()) == std::set<std::string>{"a.bin", "a.idx", "other"});
}

TEST_CASE("Tokens do not depend on threads, and documents are counted") {
  const TemporaryDirectory folder;
  std::string lines;
  for (int i = 0; i < 3000; ++i)
    lines += "{\"body\": \"" + std::string(static_cast<std::size_t>(i), 'a' + i % 26) + "\"}\n";
  const auto input = folder.write("in.jsonl", lines);
  for (const int threads : {1, 3}) {
    TokenFileWriter writer(folder.path() / std::to_string(threads), TokenFileFormat::megatron, 256);
    tokenize_files({{input, input}, "body", threads}, ByteTokenizer(), writer, [](const auto&) {});
    writer.close();
  }
  CHECK(read_file(folder.path() / "1.bin") == read_file(folder.path() / "3.bin"));
  CHECK(read_file(folder.path() / "1.idx") == read_file(folder.path() / "3.idx"));
  const DataDescription data = describe_data(folder.path() / "3.bin", nullptr, 3);
  CHECK(data.format == "Megatron-LM, uint16");
  CHECK(data.documents == 2 * 2999);  // the empty one is left out
  CHECK(data.tokens == 3000 * 2999);
  CHECK(data.largest_id == 'z');
  CHECK(data.first_tokens == Tokens{'b', 'c', 'c'});
  CHECK(!data.first_text);
}

}  // namespace llmtrain::test
