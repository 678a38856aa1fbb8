// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <string>
#include <string_view>
#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/tokenizer/byte_tokenizer.h"
#include "core/tokenizer/document_marks.h"
#include "core/tokenizer/pieces/json_fields.h"

namespace llmtrain {
namespace {

using Model = std::shared_ptr<const sentencepiece::SentencePieceProcessor>;

// What the library decodes unknown ids to: U+2047, between spaces.
constexpr std::string_view unknown_surface = " \xE2\x81\x87 ";

// Pieces have U+2581 in place of spaces.
std::string with_spaces(std::string_view piece) {
  constexpr std::string_view space = "\xE2\x96\x81";
  std::string text;
  for (std::size_t end = 0; (end = piece.find(space)) != std::string_view::npos;
       piece.remove_prefix(end + space.size()))
    text.append(piece.substr(0, end)).push_back(' ');
  return text.append(piece);
}

// "add_bos_token" of the tokenizer_config.json beside the file.
bool adds_begin(const std::filesystem::path& file) {
  const std::filesystem::path path = config_beside(file);
  if (!path_exists(path)) return true;
  const nlohmann::json config = read_json_file(path);
  return JsonFields(path, config, "").flag("add_bos_token", true);
}

class SentencePieceEncoder final : public TextEncoder {
 public:
  explicit SentencePieceEncoder(Model model) : model_(std::move(model)) {}

  void encode(std::string_view text, std::vector<TokenId>& ids) override {
    const auto status = model_->Encode(text, &ids_);
    if (!status.ok()) throw Error(ExitCode::bad_data, std::string("SentencePiece: ") + status.message());
    ids.insert(ids.end(), ids_.begin(), ids_.end());
  }

 private:
  Model model_;
  std::vector<int> ids_;
};

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(const std::filesystem::path& file) {
  const auto model = std::make_shared<sentencepiece::SentencePieceProcessor>();
  // The library would log a missing file itself.
  const auto status = model->LoadFromSerializedProto(read_file(file));
  if (!status.ok() || model->GetPieceSize() == 0)
    throw Error(ExitCode::bad_data,
                file.string() + ": is not a model of SentencePiece, or it is damaged; copy it again");
  if (model->bos_id() >= 0 && adds_begin(file)) marks_.begin = {model->bos_id()};
  if (model->eos_id() >= 0) marks_.end = {model->eos_id()};
  model_ = model;
}

std::optional<TokenId> SentencePieceTokenizer::id_of_token(std::string_view token) const {
  const int id = model_->PieceToId(token);
  return model_->IdToPiece(id) == token ? std::optional<TokenId>(id) : std::nullopt;
}

std::unique_ptr<TextEncoder> SentencePieceTokenizer::make_encoder() const {
  return std::make_unique<SentencePieceEncoder>(model_);
}

std::int64_t SentencePieceTokenizer::vocab_size() const { return model_->GetPieceSize(); }

std::string SentencePieceTokenizer::decode(std::span<const std::int64_t> ids) const {
  std::string text, part;
  std::vector<int> known;
  const auto flush = [&] {
    // Never fails: all ids are pieces of the model.
    if (!known.empty() && model_->Decode(known, &part).ok()) text += part;
    known.clear();
  };
  for (const std::int64_t id : ids) {
    if (id >= 0 && id < vocab_size()) {
      known.push_back(static_cast<int>(id));
    } else {
      flush();
      text += replacement_character;
    }
  }
  flush();
  return text;
}

std::string SentencePieceTokenizer::decode_continuation(std::span<const std::int64_t> ids) const {
  std::string text;
  for (const std::int64_t id : ids) {
    const auto piece = static_cast<int>(id);
    if (id < 0 || id >= vocab_size())
      text += replacement_character;
    else if (model_->IsByte(piece))  // "<0x41>"
      text += static_cast<char>(std::stoi(model_->IdToPiece(piece).substr(3, 2), nullptr, 16));
    else if (model_->IsUnknown(piece))
      text += unknown_surface;
    else if (!model_->IsControl(piece))
      text += with_spaces(model_->IdToPiece(piece));
  }
  return text;
}

}  // namespace llmtrain
