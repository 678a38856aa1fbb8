// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/sentencepiece/sentencepiece_json.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "core/base/printable.h"

namespace llmtrain {
namespace {

using Json = nlohmann::ordered_json;
using Algorithm = SentencePieceModel::Algorithm;
using PieceType = SentencePieceModel::PieceType;

constexpr const char* space_mark = "\xE2\x96\x81";  // U+2581, in place of a space

Json replace(const char* kind, const char* pattern, const char* content) {
  return {{"type", "Replace"}, {"pattern", {{kind, pattern}}}, {"content", content}};
}

Json normalizer_of(const SentencePieceModel& model) {
  Json steps = Json::array();
  if (!model.characters.empty())
    steps.push_back({{"type", "Precompiled"}, {"precompiled_charsmap", in_base64(model.characters)}});
  if (model.removes_spaces) {
    // Where no character stands before, or after. The mark of a space, where a text has it, is removed at the end
    // alone.
    steps.push_back(replace("Regex", R"((?<![\s\S]) +|[ ▁]+(?![\s\S]))", ""));
    steps.push_back(replace("Regex", " {2,}", " "));
  }
  if (model.puts_space_first) steps.push_back({{"type", "Prepend"}, {"prepend", space_mark}});
  steps.push_back(replace("String", " ", space_mark));
  return {{"type", "Sequence"}, {"normalizers", steps}};
}

std::string quoted(std::string_view text) {
  std::string pattern;
  for (const char each : text) {
    if (std::string_view(R"(\^$.|?*+()[]{}-#&~)").find(each) != std::string_view::npos) pattern += '\\';
    pattern += each;
  }
  return pattern;
}

// User-defined pieces are words of their own, at each place the longest. As "added_tokens" they would begin texts anew,
// with a space in front.
Json pre_tokenizer_of(const SentencePieceModel& model) {
  std::vector<std::string_view> words;
  for (const auto& piece : model.pieces)
    if (piece.type == PieceType::user_defined) words.push_back(piece.text);
  if (words.empty()) return nullptr;
  std::ranges::stable_sort(words, std::ranges::greater{}, &std::string_view::size);
  std::string pattern;
  for (const std::string_view word : words) pattern += (pattern.empty() ? "" : "|") + quoted(word);
  return {{"type", "Split"}, {"pattern", {{"Regex", pattern}}}, {"behavior", "Isolated"}, {"invert", false}};
}

// Two pieces that make a third are joined, the one with the best score first, as SentencePiece does without a list of
// pairs. Of pairs that make the same piece the one with the longer left part comes first, which is mostly the one
// further left.
Json merges_of(const SentencePieceModel& model) {
  std::unordered_map<std::string_view, std::size_t> ids;
  for (std::size_t id = 0; id < model.pieces.size(); ++id)
    if (model.pieces[id].type == PieceType::normal) ids.emplace(model.pieces[id].text, id);
  std::vector<std::tuple<float, std::size_t, std::size_t>> pairs;  // minus score, id, bytes of the right part
  for (const auto& [text, id] : ids)
    for (std::size_t left = 1; left < text.size(); ++left)
      if (ids.contains(text.substr(0, left)) && ids.contains(text.substr(left)))
        pairs.emplace_back(-model.pieces[id].score, id, text.size() - left);
  std::ranges::sort(pairs);
  Json merges = Json::array();
  for (const auto& [score, id, right] : pairs) {
    const std::string& text = model.pieces[id].text;
    const std::size_t left = text.size() - right;
    merges.push_back({text.substr(0, left), text.substr(left)});
  }
  return merges;
}

Json bpe_of(const SentencePieceModel& model, bool has_words) {
  Json vocabulary = Json::object();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) vocabulary[model.pieces[id].text] = id;
  return {{"type", "BPE"},
          {"dropout", nullptr},
          {"unk_token", model.pieces[unknown_id(model)].text},
          {"continuing_subword_prefix", nullptr},
          {"end_of_word_suffix", nullptr},
          {"fuse_unk", true},
          {"byte_fallback", model.falls_back_to_bytes},
          // No pairs make a user-defined piece.
          {"ignore_merges", has_words},
          {"vocab", std::move(vocabulary)},
          {"merges", merges_of(model)}};
}

Json unigram_of(const SentencePieceModel& model) {
  // Texts that are written like control pieces or bytes are none, so that these are the least likely of all.
  constexpr double never = -1e6;
  Json vocabulary = Json::array();
  for (const auto& piece : model.pieces) {
    const bool is_text = piece.type == PieceType::normal || piece.type == PieceType::user_defined;
    vocabulary.push_back({piece.text, is_text ? double{piece.score} : never});
  }
  return {{"type", "Unigram"},
          {"unk_id", unknown_id(model)},
          {"byte_fallback", model.falls_back_to_bytes},
          {"vocab", std::move(vocabulary)}};
}

Json decoder_of(const SentencePieceModel& model) {
  Json steps = {replace("String", space_mark, " "), {{"type", "ByteFallback"}}, {{"type", "Fuse"}}};
  if (model.puts_space_first) steps.push_back({{"type", "Strip"}, {"content", " "}, {"start", 1}, {"stop", 0}});
  return {{"type", "Sequence"}, {"decoders", std::move(steps)}};
}

Json post_processor_of(const SentencePieceModel& model, std::optional<std::int64_t> begin) {
  if (!begin) return nullptr;
  const std::string& mark = model.pieces[static_cast<std::size_t>(*begin)].text;
  const auto token = [&](int type) { return Json{{"SpecialToken", {{"id", mark}, {"type_id", type}}}}; };
  const auto text = [](const char* id, int type) { return Json{{"Sequence", {{"id", id}, {"type_id", type}}}}; };
  return {
      {"type", "TemplateProcessing"},
      {"single", Json::array({token(0), text("A", 0)})},
      {"pair", Json::array({token(0), text("A", 0), token(1), text("B", 1)})},
      {"special_tokens", {{mark, {{"id", mark}, {"ids", Json::array({*begin})}, {"tokens", Json::array({mark})}}}}}};
}

Json added_tokens_of(const SentencePieceModel& model) {
  Json tokens = Json::array();
  for (std::size_t id = 0; id < model.pieces.size(); ++id) {
    const auto& piece = model.pieces[id];
    if (piece.type == PieceType::unknown || piece.type == PieceType::control)
      tokens.push_back({{"id", id},
                        {"content", piece.text},
                        {"single_word", false},
                        {"lstrip", false},
                        {"rstrip", false},
                        {"normalized", false},
                        {"special", true}});
  }
  return tokens;
}

}  // namespace

std::optional<std::string> reason_against_json(const SentencePieceModel& model) {
  if (model.algorithm != Algorithm::unigram && model.algorithm != Algorithm::bpe)
    return "its tokens are words or characters";
  if (model.puts_space_behind) return "its spaces end words";
  if (!model.marks_spaces) return "its spaces are not marked";
  const auto counted = [&](PieceType type) {
    return std::ranges::count(model.pieces, type, &SentencePieceModel::Piece::type);
  };
  if (counted(PieceType::unknown) != 1) return "it has not one token for what is unknown";
  if (counted(PieceType::unused) != 0) return "it has tokens that are not used";
  return std::nullopt;
}

nlohmann::ordered_json json_of_sentencepiece(const SentencePieceModel& model, std::optional<std::int64_t> begin) {
  const Json pre_tokenizer = pre_tokenizer_of(model);
  const bool has_words = !pre_tokenizer.is_null();
  return {{"version", "1.0"},
          {"truncation", nullptr},
          {"padding", nullptr},
          {"added_tokens", added_tokens_of(model)},
          {"normalizer", normalizer_of(model)},
          {"pre_tokenizer", pre_tokenizer},
          {"post_processor", post_processor_of(model, begin)},
          {"decoder", decoder_of(model)},
          {"model", model.algorithm == Algorithm::bpe ? bpe_of(model, has_words) : unigram_of(model)}};
}

}  // namespace llmtrain
