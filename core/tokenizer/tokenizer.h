// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/tokenizer/pieces/token_id.h"
#include "core/tokenizer/text_templates.h"

namespace llmtrain {

// Turns text into ids. It has memory of its own for speed: one object per thread.
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;
  // Appends the ids of `text` to `ids`, without marks of documents. Throws Error(bad_data) where the tokenizer has no
  // id for a part of the text.
  virtual void encode(std::string_view text, std::vector<TokenId>& ids) = 0;

  // Lets another thread end an encode() that takes long, as of a file that is one document: it throws Error(stopped)
  // soon after the flag is set, if it can. The flag outlives every call.
  void abandon_on(const std::atomic<bool>& flag) { flag_ = &flag; }

 protected:
  bool is_abandoned() const { return flag_ != nullptr && flag_->load(std::memory_order_relaxed); }

 private:
  const std::atomic<bool>* flag_ = nullptr;
};

// What a tokenizer puts around a document.
struct DocumentMarks {
  std::vector<TokenId> begin;
  std::vector<TokenId> end;  // the end-of-text token; empty where the tokenizer has none
};

// Immutable and shared between threads.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // The tokenizer outlives the encoder.
  virtual std::unique_ptr<TextEncoder> make_encoder() const = 0;
  // The bytes that the ids stand for: valid UTF-8 only if they end between characters. An id that the tokenizer does
  // not know (a model's vocabulary may be padded) becomes U+FFFD.
  virtual std::string decode(std::span<const std::int64_t> ids) const = 0;
  // The same after other text: a tokenizer may write ids differently at a document's beginning. What is decoded of the
  // first ids is the beginning of what is decoded of all.
  virtual std::string decode_continuation(std::span<const std::int64_t> ids) const { return decode(ids); }
  // The largest id + 1.
  virtual std::int64_t vocab_size() const = 0;
  virtual const DocumentMarks& marks() const = 0;
  // The id of the token that is written so, whether it is found in texts or not; none where there is no such token, as
  // where tokens have no names.
  virtual std::optional<TokenId> id_of_token(std::string_view /*token*/) const { return std::nullopt; }
  // What encode_pair() writes; by default texts without marks.
  virtual const TextTemplates& templates() const;
};

// The ids that a model continues: the marks of a document's beginning, and the text.
std::vector<std::int64_t> encode_prompt(const Tokenizer& tokenizer, std::string_view text);

}  // namespace llmtrain
