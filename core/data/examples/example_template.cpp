// SPDX-License-Identifier: Apache-2.0
#include "core/data/examples/example_template.h"

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "core/tokenizer/pieces/json_fields.h"

namespace llmtrain {
namespace {

using Piece = ExampleTemplate::Piece;
using Kind = Piece::Kind;

TokenId id_of(const JsonFields& list, std::size_t index) {
  const nlohmann::json& value = list.element(index).value();
  if (!value.is_number_integer()) list.fail("is not a list of ids");
  return value.get<TokenId>();
}

// {"id": "A", "type_id": 0}
std::vector<Piece> pieces_of(const JsonFields& section, const char* name) {
  std::vector<Piece> pieces;
  const JsonFields written = section.section(name);
  for (std::size_t i = 0; i < written.size(); ++i) {
    const JsonFields piece = written.element(i);
    if (piece.has("Sequence")) {
      const JsonFields text = piece.section("Sequence");
      pieces.push_back({text.text("id") == "A" ? Kind::text : Kind::pair, 0, text.whole_number("type_id")});
      continue;
    }
    const JsonFields mark = piece.section("SpecialToken");
    const JsonFields ids = section.section("special_tokens").section(mark.text("id").c_str()).section("ids");
    for (std::size_t k = 0; k < ids.size(); ++k)
      pieces.push_back({Kind::mark, id_of(ids, k), mark.whole_number("type_id")});
  }
  return pieces;
}

// BERT's [CLS] A [SEP] B [SEP] with types 0 and 1, RoBERTa's <s> A </s></s> B </s> with type 0 alone.
ExampleTemplate fixed_template(const JsonFields& section, bool is_roberta) {
  const Piece begin{Kind::mark, id_of(section.section("cls"), 1), 0};
  const TokenId end = id_of(section.section("sep"), 1);
  const std::int64_t type = is_roberta ? 0 : 1;
  const Piece text{Kind::text}, pair{Kind::pair, 0, type}, text_end{Kind::mark, end, 0},
      pair_end{Kind::mark, end, type};
  ExampleTemplate made{{begin, text, text_end}, {begin, text, text_end}};
  if (is_roberta) made.pair.push_back(text_end);
  made.pair.insert(made.pair.end(), {pair, pair_end});
  return made;
}

std::optional<ExampleTemplate> template_of(const JsonFields& section) {
  const std::string kind = section.text("type");
  if (kind == "TemplateProcessing") return ExampleTemplate{pieces_of(section, "single"), pieces_of(section, "pair")};
  if (kind == "BertProcessing" || kind == "RobertaProcessing")
    return fixed_template(section, kind == "RobertaProcessing");
  if (kind != "Sequence") return std::nullopt;
  const JsonFields processors = section.section("processors");
  for (std::size_t i = 0; i < processors.size(); ++i)
    if (auto found = template_of(processors.element(i))) return found;
  return std::nullopt;
}

ExampleTemplate template_of_marks(const DocumentMarks& marks) {
  ExampleTemplate made;
  const auto add = [&](const std::vector<TokenId>& ids, std::int64_t type) {
    for (const TokenId id : ids) made.single.push_back({Kind::mark, id, type});
  };
  add(marks.begin, 0);
  made.single.push_back({Kind::text});
  add(marks.end, 0);
  made.pair = made.single;
  std::swap(made.single, made.pair);
  made.single.push_back({Kind::pair, 0, 1});
  add(marks.end, 1);
  std::swap(made.single, made.pair);
  return made;
}

}  // namespace

std::int64_t ExampleTemplate::marks(const std::vector<Piece>& pieces) {
  return std::ranges::count(pieces, Kind::mark, &Piece::kind);
}

std::size_t ExampleTemplate::append(const std::vector<Piece>& pieces, std::span<const TokenId> text,
                                    std::span<const TokenId> pair, std::vector<TokenId>& ids,
                                    std::vector<std::uint8_t>& types) {
  const std::size_t begin = ids.size();
  std::size_t pair_row = 0;
  const auto add = [&](std::span<const TokenId> part, std::int64_t type) {
    ids.insert(ids.end(), part.begin(), part.end());
    types.insert(types.end(), part.size(), static_cast<std::uint8_t>(type));
  };
  for (const Piece& piece : pieces) switch (piece.kind) {
      case Kind::mark:
        add({&piece.id, 1}, piece.type);
        break;
      case Kind::text:
        add(text, piece.type);
        break;
      case Kind::pair:
        pair_row = ids.size() - begin;
        add(pair, piece.type);
        break;
    }
  return pair_row;
}

ExampleTemplate example_template(const TokenizerRecipe& recipe, const Tokenizer& opened) {
  if (recipe.kind != TokenizerKind::huggingface) return template_of_marks(opened.marks());
  const std::filesystem::path file = recipe.file;
  const nlohmann::json json = read_json_file(file);
  const JsonFields root(file, json, "");
  if (!root.has("post_processor")) return template_of_marks(opened.marks());
  return template_of(root.section("post_processor")).value_or(template_of_marks(opened.marks()));
}

}  // namespace llmtrain
