// SPDX-License-Identifier: Apache-2.0
#include "core/tokenizer/sentencepiece_tokenizer.h"

#include <sentencepiece_processor.h>

#include <utility>

#include "core/base/error.h"
#include "core/base/file.h"
#include "core/tokenizer/byte_tokenizer.h"

namespace llmtrain {
namespace {

using Model = std::shared_ptr<const sentencepiece::SentencePieceProcessor>;

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
  if (model->bos_id() >= 0) marks_.begin = {model->bos_id()};
  if (model->eos_id() >= 0) marks_.end = {model->eos_id()};
  model_ = model;
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

}  // namespace llmtrain
