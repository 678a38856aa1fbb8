// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/post_processor.h"

#include <algorithm>
#include <string>
#include <utility>

namespace llmtrain {
namespace {

using Kind = TemplatePiece::Kind;
using Pieces = std::vector<TemplatePiece>;

std::int32_t type_of(const JsonFields& section) {
  return section.has("type_id") ? static_cast<std::int32_t>(section.whole_number("type_id")) : 0;
}

// {"<s>": {"ids": [1], …}}, for the name that a template uses.
std::vector<TokenId> ids_of(const JsonFields& special_tokens, const std::string& name) {
  const JsonFields list = special_tokens.section(name.c_str()).section("ids");
  std::vector<TokenId> ids;
  for (std::size_t i = 0; i < list.size(); ++i) {
    if (!list.element(i).value().is_number_integer()) list.fail("is not a list of ids");
    ids.push_back(list.element(i).value().get<TokenId>());
  }
  return ids;
}

TemplatePiece read_piece(const JsonFields& section, const JsonFields& piece) {
  if (piece.has("Sequence")) {
    const JsonFields sequence = piece.section("Sequence");
    const std::string id = sequence.text("id");
    if (id != "A" && id != "B") sequence.section("id").fail("is neither \"A\" nor \"B\"");
    return {id == "A" ? Kind::first_text : Kind::second_text, {}, type_of(sequence)};
  }
  const JsonFields token = piece.section("SpecialToken");
  return {Kind::marks, ids_of(section.section("special_tokens"), token.text("id")), type_of(token)};
}

Pieces read_pieces(const JsonFields& section, const char* key, int texts) {
  const JsonFields list = section.section(key);
  Pieces pieces;
  for (std::size_t i = 0; i < list.size(); ++i) pieces.push_back(read_piece(section, list.element(i)));
  for (const Kind kind : {Kind::first_text, Kind::second_text}) {
    const auto count = std::ranges::count(pieces, kind, &TemplatePiece::kind);
    const std::string text = kind == Kind::first_text ? "\"A\"" : "\"B\"";
    const bool is_there = kind == Kind::first_text || texts == 2;
    if (count != (is_there ? 1 : 0))
      list.fail("holds the text " + text + (is_there ? " not once" : ", which it has not"));
  }
  return pieces;
}

TextTemplates template_processing(const JsonFields& section) {
  TextTemplates templates;
  templates.single = read_pieces(section, "single", 1);
  if (section.has("pair")) templates.pair = read_pieces(section, "pair", 2);
  return templates;
}

// ["[SEP]", 102].
TemplatePiece mark(const JsonFields& section, const char* key, std::int32_t type) {
  const JsonFields pair = section.section(key);
  if (pair.size() != 2 || !pair.value()[0].is_string() || !pair.value()[1].is_number_unsigned())
    pair.fail("is not a token and its id");
  return {Kind::marks, {pair.value()[1].get<TokenId>()}, type};
}

TextTemplates bert_processing(const JsonFields& section) {
  const TemplatePiece begin = mark(section, "cls", 0), end = mark(section, "sep", 0);
  return {{begin, {Kind::first_text, {}, 0}, end},
          {begin, {Kind::first_text, {}, 0}, end, {Kind::second_text, {}, 1}, mark(section, "sep", 1)}};
}

TextTemplates roberta_processing(const JsonFields& section) {
  const TemplatePiece begin = mark(section, "cls", 0), end = mark(section, "sep", 0);
  const TemplatePiece first{Kind::first_text, {}, 0}, second{Kind::second_text, {}, 0};
  return {{begin, first, end}, {begin, first, end, end, second, end}};
}

}  // namespace

TextTemplates read_templates(const JsonFields& section) {
  const std::string kind = section.text("type");
  if (kind == "TemplateProcessing") return template_processing(section);
  if (kind == "BertProcessing") return bert_processing(section);
  if (kind == "RobertaProcessing") return roberta_processing(section);
  if (kind == "ByteLevel") return {};
  if (kind != "Sequence")
    section.fail("\"" + kind +
                 "\" is not supported; supported are BertProcessing, ByteLevel, RobertaProcessing, Sequence and "
                 "TemplateProcessing");
  TextTemplates templates;
  bool has_marks = false;
  const JsonFields processors = section.section("processors");
  for (std::size_t i = 0; i < processors.size(); ++i) {
    const JsonFields processor = processors.element(i);
    if (processor.text("type") == "ByteLevel") continue;
    if (has_marks || processor.text("type") == "Sequence")
      processor.fail("\"" + processor.text("type") + "\" is not supported after or within another");
    has_marks = true;
    templates = read_templates(processor);
  }
  return templates;
}

}  // namespace llmtrain
