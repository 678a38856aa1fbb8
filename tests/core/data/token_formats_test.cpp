// SPDX-License-Identifier: Apache-2.0
// Every file is written here byte by byte, according to the published layouts.
#include <algorithm>
#include <catch2/catch.hpp>
#include <filesystem>

#include "core/data/token_source.h"
#include "tests/core/data/data_files.h"
#include "tests/support/resident_memory.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

Tokens all_tokens(const std::filesystem::path& path, std::int64_t vocab_size = 1 << 20, MappingBudget budget = {},
                  const TokenizerRecipe& tokenizer = {}) {
  TextTokens text(tokenizer, vocab_size);
  const TokenSource source(path.string(), text, vocab_size, budget);
  Tokens tokens(static_cast<std::size_t>(source.tokens()));
  source.read(0, tokens);
  return tokens;
}

template <std::integral Integer>
void check_megatron(std::uint8_t code, const Tokens& tokens) {
  const TemporaryDirectory folder;
  const auto count = static_cast<std::int32_t>(tokens.size());
  folder.write("a.idx", megatron_index({.code = code, .token_bytes = sizeof(Integer), .lengths = {2, 0, count - 2}}));
  CHECK(all_tokens(folder.write("a.bin", little_endian<Integer>(tokens)), 1LL << 40) == tokens);
}

}  // namespace

TEST_CASE("Text is its bytes") {
  const TemporaryDirectory folder;
  CHECK(all_tokens(folder.write("a.txt", "Aé\n"), 256) == Tokens{65, 0xC3, 0xA9, 10});
}

TEST_CASE("A file that is named is read even with a hidden name") {
  const TemporaryDirectory folder;
  CHECK(all_tokens(folder.write(".hidden",
                                "a\x01"
                                "b"),
                   256) == Tokens{97, 1, 98});
}

TEST_CASE("A .bin file is raw little-endian uint16") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.bin", std::string("\x01\x00\x00\x02\xff\xff", 6));
  CHECK(all_tokens(file) == Tokens{1, 512, 65535});
}

// Sanitizers keep memory of their own for what is read.
#if !defined(LLMTRAIN_SANITIZED)
TEST_CASE("A file whose ids have all been checked does not stay in memory") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.bin", "");
  std::filesystem::resize_file(file, 100'000'000);  // zeros that take no room on the disk
  TextTokens text({}, 100);
  MappingBudget budget;
  double most = 0;
  const double before = resident_megabytes();
  const TokenFile opened(file, text, 100, budget, DocumentStarts::unknown,
                         [&](double) { most = std::max(most, resident_megabytes()); });
  CHECK(opened.tokens() == 50'000'000);
  // 8 MB are read between two reports.
  CHECK(most - before < 30);
  CHECK(resident_megabytes() - before < 5);
}
#endif

TEST_CASE("An llm.c file holds uint16 or uint32 after 1024 bytes") {
  const TemporaryDirectory folder;
  const Tokens small{50256, 0, 1};
  const Tokens large{128000, 0, 65536};
  CHECK(all_tokens(folder.write("a.bin", llmc_header(20240520, 1, 3) + little_endian<std::uint16_t>(small))) == small);
  CHECK(all_tokens(folder.write("b.bin", llmc_header(20240801, 7, 3) + little_endian<std::uint32_t>(large))) == large);
}

TEST_CASE("An llm.c file is recognised by its magic, even with an .idx next to it") {
  const TemporaryDirectory folder;
  folder.write("a.idx", "anything");
  CHECK(all_tokens(folder.write("a.bin", llmc_header(20240520, 1, 1) + little_endian<std::uint16_t>(Tokens{7}))) ==
        Tokens{7});
}

TEST_CASE("A Megatron pair may contain any integer type") {
  check_megatron<std::uint8_t>(1, {0, 255, 7, 8});
  check_megatron<std::int8_t>(2, {0, 127, 7, 8});
  check_megatron<std::int16_t>(3, {0, 32767, 7, 8});
  check_megatron<std::int32_t>(4, {0, 1 << 30, 7, 8});
  check_megatron<std::int64_t>(5, {0, 1LL << 39, 7, 8});
  check_megatron<std::uint16_t>(8, {0, 65535, 7, 8});
}

TEST_CASE("A Megatron index of multimodal data has a mode per sequence") {
  const TemporaryDirectory folder;
  folder.write("a.idx", megatron_index({.lengths = {1, 2}}) + std::string(2, '\0'));
  CHECK(all_tokens(folder.write("a.bin", little_endian<std::uint16_t>(Tokens{4, 5, 6}))) == Tokens{4, 5, 6});
}

TEST_CASE("JSON Lines are the concatenated texts") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.jsonl",
                                 "{\"text\": \"ab\\u00e9\"}\n\n  \r\n{\"id\": 3, \"text\": \"\\n\"}\r\n"
                                 "{\"text\": \"\"}\n{\"text\": \"z\", \"meta\": {\"text\": \"no\"}}");
  CHECK(all_tokens(file, 256) == Tokens{97, 98, 0xC3, 0xA9, 10, 122});
}

TEST_CASE("Tokenised files are read with any tokenizer") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.bin", little_endian<std::uint16_t>(Tokens{4, 5}));
  CHECK(all_tokens(file, 10, {}, {TokenizerKind::sentencepiece, "t.model"}) == Tokens{4, 5});
  CHECK(all_tokens(file, 10, {}, {TokenizerKind::huggingface, "t.json"}) == Tokens{4, 5});
}

TEST_CASE("Files beyond the budget of mappings are read too") {
  const TemporaryDirectory folder;
  folder.write("a.txt", "ab");
  folder.write("b.txt", "cd");
  folder.write("c.jsonl", "{\"text\": \"ef\"}");
  folder.write("d.txt", "gh");
  for (const std::int64_t budget : {0, 1, 2, 9}) CHECK(all_tokens(folder.path(), 256, {budget}) == range('a', 8));
}

TEST_CASE("A glob of token files is one sequence, whatever their formats") {
  const TemporaryDirectory folder;
  folder.write("s_0.bin", llmc_header(20240520, 1, 2) + little_endian<std::uint16_t>(Tokens{0, 1}));
  folder.write("s_1.bin", little_endian<std::uint16_t>(Tokens{2}));
  folder.write("s_2.idx", megatron_index({.code = 4, .token_bytes = 4, .lengths = {1, 1}}));
  folder.write("s_2.bin", little_endian<std::int32_t>(Tokens{3, 4}));
  CHECK(all_tokens(folder.path() / "s_*.bin") == range(0, 5));
}

TEST_CASE("The largest id may be one below the vocabulary size") {
  const TemporaryDirectory folder;
  CHECK(all_tokens(folder.write("a.bin", little_endian<std::uint16_t>(Tokens{99, 0})), 100) == Tokens{99, 0});
  CHECK(all_tokens(folder.write("a.txt", "~"), 127) == Tokens{126});
}

TEST_CASE("A read may begin and end anywhere, across files and empty files") {
  const TemporaryDirectory folder;
  for (const auto& [name, text] : {std::pair{"a", "a"}, {"b", "bcd"}, {"c", ""}, {"d", "ef"}, {"e", "ghij"}}) {
    folder.write(name, text);
  }
  MappingBudget budget;
  TextTokens text({}, 256);
  const TokenSource source(folder.path().string(), text, 256, budget);
  CHECK(source.files() == 5);
  REQUIRE(source.tokens() == 10);
  for (std::int64_t first = 0; first < 10; ++first) {
    for (std::int64_t count = 0; first + count <= 10; ++count) {
      Tokens tokens(static_cast<std::size_t>(count));
      source.read(first, tokens);
      CHECK(tokens == range('a' + first, count));
    }
  }
}

// Three files: documents of 3, 0 and 2 tokens by an index, four tokens without one, and a document of two.
TEST_CASE("Documents begin where an index says, and in other files after the mark") {
  constexpr std::int64_t mark = 9;
  const TemporaryDirectory folder;
  folder.write("a.idx", megatron_index({.lengths = {3, 0, 2}}));
  folder.write("a.bin", little_endian<std::uint16_t>(Tokens{1, mark, 3, 4, 5}));
  folder.write("b.bin", little_endian<std::uint16_t>(Tokens{6, mark, 7, 8}));
  folder.write("c.idx", megatron_index({.lengths = {2}}));
  folder.write("c.bin", little_endian<std::uint16_t>(Tokens{mark, 5}));
  const auto source = [&](const std::string& name, DocumentStarts starts = DocumentStarts::known) {
    TextTokens text({}, 100);
    MappingBudget budget;
    return TokenSource((folder.path() / name).string(), text, 100, budget, {}, starts);
  };
  const TokenSource all = source("*.bin");
  const auto starts = [&](std::int64_t first, std::size_t count) {
    Tokens tokens(count), found(count);
    all.read(first, tokens);
    all.mark_documents(first, mark, tokens, found);
    return found;
  };
  CHECK(starts(0, 11) == Tokens{1, 0, 0, 1, 0, 1, 0, 1, 0, 1, 0});
  CHECK(starts(2, 4) == Tokens{0, 1, 0, 1});
  CHECK(starts(7, 3) == Tokens{0, 0, 1});

  const auto divides = [&](const std::string& name, std::int64_t end, std::int64_t most) {
    const TokenSource::Dividers found = source(name).dividers(end, most);
    return Tokens{found.are_indexes, found.divide, found.searched};
  };
  CHECK(divides("*.bin", mark, 100) == Tokens{false, true, 4});
  CHECK(divides("a.bin", 50, 100) == Tokens{true, true, 0});
  CHECK(divides("c.bin", mark, 100) == Tokens{true, false, 0});
  CHECK(divides("b.bin", mark, 100) == Tokens{false, true, 4});
  CHECK(divides("b.bin", mark, 1) == Tokens{false, false, 1});
  CHECK(divides("b.bin", 50, 100) == Tokens{false, false, 4});
}

}  // namespace llmtrain::test
