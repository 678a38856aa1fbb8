// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>

#include "tests/core/data/data_files.h"
#include "tests/core/data/small_tokenizer.h"
#include "tests/support/temporary_directory.h"

namespace llmtrain::test {
namespace {

const std::string pointer = "/data/train/0/path";
const std::string ten_ids = little_endian<std::uint16_t>(range(0, 10));

// One file in a new folder must be refused as bad data, in a message with the pointer, the file and these fragments.
void check_refused(const std::string& name, const std::string& bytes, std::vector<std::string> parts,
                   std::int64_t vocab_size = 65536) {
  const TemporaryDirectory folder;
  const auto file = folder.write(name, bytes);
  parts.insert(parts.end(), {pointer, file.string()});
  require_error(ExitCode::bad_data, parts, [&] { open(file.string(), {.vocab_size = vocab_size}); });
}

// The same for a token file with this index next to it; the message names the index or the token file, as in `parts`.
void check_pair_refused(const std::string& index, const std::string& tokens, std::vector<std::string> parts) {
  const TemporaryDirectory folder;
  folder.write("a.idx", index);
  const auto file = folder.write("a.bin", tokens);
  parts.push_back(pointer);
  require_error(ExitCode::bad_data, parts, [&] { open(file.string(), {}); });
}

std::string ten_id_index() { return megatron_index({.lengths = {4, 6}}); }

std::string patched(std::string bytes, std::size_t offset, const std::string& patch) {
  return bytes.replace(offset, patch.size(), patch);
}

}  // namespace

TEST_CASE("Raw uint16 of odd length is refused") {
  check_refused("a.bin", ten_ids + "x", {"21 bytes", "odd", "uint16"});
}

TEST_CASE("llm.c: a file truncated within its header is refused") {
  check_refused("a.bin", llmc_header(20240520, 1, 3).substr(0, 1000), {"1000 bytes", "1024"});
}

TEST_CASE("llm.c: a version that does not match the magic is refused") {
  check_refused("a.bin", llmc_header(20240520, 7, 10) + ten_ids, {"version 7", "version 1"});
  check_refused("a.bin", llmc_header(20240801, 1, 5) + ten_ids, {"version 1", "version 7"});
}

TEST_CASE("llm.c: a file shorter than its count is refused") {
  check_refused("a.bin", llmc_header(20240520, 1, 11) + ten_ids, {"1044 bytes", "1046", "11 tokens", "cut short"});
}

TEST_CASE("llm.c: a file longer than its count is refused") {
  check_refused("a.bin", llmc_header(20240801, 7, 4) + ten_ids, {"1044 bytes", "1040", "4 tokens", "extended"});
}

TEST_CASE("llm.c: a negative count is refused") {
  check_refused("a.bin", llmc_header(20240520, 1, -1) + ten_ids, {"-1 tokens", "negative"});
}

TEST_CASE("llm.c: its models, states, tokenizers and evaluation files are not training tokens") {
  for (const std::int32_t magic : {20240522, 20240326, 20240527, 20240328}) {
    check_refused("a.bin", llmc_header(magic, 1, 10) + ten_ids, {std::to_string(magic), "20240520"});
  }
}

TEST_CASE("Megatron: an index given as data is refused") { check_refused("a.idx", ten_id_index(), {"index", ".bin"}); }

TEST_CASE("Megatron: a wrong magic or a truncated header is refused") {
  check_pair_refused(megatron_index({.magic = "MMIDIDX\1"
                                              "2",
                                     .lengths = {10}}),
                     ten_ids, {"a.idx", "MMIDIDX"});
  check_pair_refused(ten_id_index().substr(0, 33), ten_ids, {"a.idx", "34 bytes"});
  check_pair_refused("", ten_ids, {"a.idx", "34 bytes"});
}

TEST_CASE("Megatron: an unknown version is refused") {
  check_pair_refused(megatron_index({.version = 2, .lengths = {10}}), ten_ids, {"a.idx", "version 2", "version 1"});
}

TEST_CASE("Megatron: floating-point and unknown types are refused") {
  for (const int code : {0, 6, 7, 9, 255}) {
    const auto index = megatron_index({.code = static_cast<std::uint8_t>(code), .lengths = {10}});
    check_pair_refused(index, ten_ids, {"a.idx", "type code " + std::to_string(code)});
  }
}

TEST_CASE("Megatron: an index whose size does not fit its counts is refused") {
  check_pair_refused(ten_id_index() + "x", ten_ids, {"a.idx", "2 sequences", "3 document marks"});
  check_pair_refused(ten_id_index().substr(0, 80), ten_ids, {"a.idx", "80 bytes"});
}

TEST_CASE("Megatron: counts whose product overflows are refused") {
  const std::uint64_t huge = std::uint64_t{1} << 62;
  check_pair_refused(patched(ten_id_index(), 18, little_endian(huge)), ten_ids, {"a.idx", std::to_string(huge)});
  check_pair_refused(patched(ten_id_index(), 26, little_endian(huge)), ten_ids, {"a.idx", std::to_string(huge)});
}

TEST_CASE("Megatron: a negative length is refused") {
  check_pair_refused(megatron_index({.lengths = {12, -2}}), ten_ids, {"a.idx", "sequence 1", "length -2"});
}

TEST_CASE("Megatron: sequences that do not follow one another are refused") {
  const std::size_t second_offset = 34 + 2 * 4 + 8;
  check_pair_refused(patched(ten_id_index(), second_offset, little_endian(std::int64_t{10})), ten_ids,
                     {"a.idx", "sequence 1", "byte 10", "8"});
}

TEST_CASE("Megatron: documents that do not end with the last sequence are refused") {
  const std::size_t last_mark = 34 + 2 * 12 + 2 * 8;
  check_pair_refused(patched(ten_id_index(), last_mark, little_endian(std::int64_t{1})), ten_ids,
                     {"a.idx", "sequence 1 of 2"});
  check_pair_refused(patched(ten_id_index(), last_mark - 8, little_endian(std::int64_t{3})), ten_ids,
                     {"a.idx", "mark 2", "goes back"});
}

TEST_CASE("Megatron: a token file shorter or longer than its index is refused") {
  check_pair_refused(ten_id_index(), ten_ids.substr(0, 18), {"a.bin", "18 bytes", "10 tokens", "make 20", "cut short"});
  check_pair_refused(ten_id_index(), ten_ids + "ab", {"a.bin", "22 bytes", "10 tokens", "make 20", "extended"});
}

TEST_CASE("An id outside the vocabulary is refused with its position") {
  Tokens ids(100000, 5);
  ids[70001] = 100;
  ids[90000] = 200;
  check_refused("a.bin", little_endian<std::uint16_t>(ids), {"token 70001", "id 100;", "0 to 99", "vocab_size"}, 100);
}

TEST_CASE("An llm.c uint32 id above 2^31 is not taken for a negative one") {
  const auto ids = little_endian<std::uint32_t>({1, 2, 4294967295});
  check_refused("a.bin", llmc_header(20240801, 7, 3) + ids, {"token 2", "id 4294967295"});
}

TEST_CASE("A negative id is refused") {
  check_pair_refused(megatron_index({.code = 4, .token_bytes = 4, .lengths = {3}}),
                     little_endian<std::int32_t>({1, -100, 3}), {"a.bin", "token 1", "id -100"});
  check_pair_refused(megatron_index({.code = 2, .token_bytes = 1, .lengths = {3}}),
                     little_endian<std::int8_t>({1, 2, -1}), {"a.bin", "token 2", "id -1;"});
}

TEST_CASE("A byte of text outside the vocabulary is refused") {
  check_refused("a.txt", "plain \xC3\xA9", {"token 6", "id 195", "bytes need 256"}, 128);
  check_refused("a.jsonl", "{\"text\": \"aaaaa\xC3\xA9\"}", {"token 5", "id 195"}, 128);
}

TEST_CASE("JSON Lines that are not objects with a text are refused with their line") {
  const std::string good = "{\"text\": \"a long enough line\"}\n";
  check_refused("a.jsonl", good + "{\"text\": \"cut", {"line 2", "not valid JSON"});
  check_refused("a.jsonl", good + "\n" + "plain text", {"line 3", "not valid JSON"});
  check_refused("a.jsonl", good + "{\"body\": \"x\"}", {"line 2", "no string \"text\""});
  check_refused("a.jsonl", good + "{\"text\": 3}", {"line 2", "no string \"text\""});
  check_refused("a.jsonl", good + "[\"text\"]", {"line 2", "no string \"text\""});
  check_refused("a.jsonl", good + "{\"text\": \"\xFF\"}", {"line 2", "not valid JSON"});
}

TEST_CASE("Megatron: an index that is a broken link is missing, not ignored") {
  const TemporaryDirectory folder;
  const auto file = folder.write("a.bin", ten_ids);
  std::filesystem::create_symlink(folder.path() / "gone", folder.path() / "a.idx");
  require_error(ExitCode::missing_input, {pointer, "a.idx"}, [&] { open(file.string(), {}); });
}

TEST_CASE("Text whose tokenizer is missing, damaged or larger than the model is refused with its key and file") {
  const std::string huggingface = "/data/tokenizer/huggingface: ", sentencepiece = "/data/tokenizer/sentencepiece: ";
  const TemporaryDirectory folder;
  const auto damaged = folder.write("damaged.json", "{\"model\": ").string();
  const auto text = folder.write("a.txt", "long enough").string();
  const auto opened_with = [&](const TokenizerRecipe& tokenizer, std::int64_t vocab_size) {
    return [=] { open(text, {.vocab_size = vocab_size, .tokenizer = tokenizer}); };
  };
  require_error(ExitCode::missing_input, {huggingface, "nowhere.json"},
                opened_with({TokenizerKind::huggingface, "nowhere.json"}, 300));
  require_error(ExitCode::missing_input, {sentencepiece, "nowhere.model"},
                opened_with({TokenizerKind::sentencepiece, "nowhere.model"}, 300));
  require_error(ExitCode::bad_data, {huggingface, "damaged.json", "not valid JSON"},
                opened_with({TokenizerKind::huggingface, damaged}, 300));
  require_error(ExitCode::bad_data, {sentencepiece, "damaged.json", "SentencePiece"},
                opened_with({TokenizerKind::sentencepiece, damaged}, 300));
  const auto tokenizer = folder.write("tokenizer.json", small_tokenizer().dump()).string();
  require_error(ExitCode::bad_data, {huggingface, "tokenizer.json", "up to 260", "model.vocab_size is 260"},
                opened_with({TokenizerKind::huggingface, tokenizer}, 260));
}

TEST_CASE("Packed text that is damaged or cut short is refused") {
  const std::string gzip{
      "\037\213\010\000\000\000\000\000\002\003\113\114\112\116\111\115\113\317\310\314\002\000\072\160\201\071\012\000"
      "\000\000",
      30};  // "abcdefghij"
  check_refused("a.txt.gz", gzip.substr(0, 20), {"a.txt.gz", "cut short"});
  check_refused("b.txt.gz", "plain text", {"b.txt.gz", "not a gzip file"});
  check_refused("c.txt.zst", "plain text", {"c.txt.zst", "damaged"});
}

}  // namespace llmtrain::test
