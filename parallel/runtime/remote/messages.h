// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "core/base/error.h"
#include "parallel/runtime/text_service.h"

namespace llmtrain::remote {

// What a server and the process that has its model say to each other: a TextService between them. The server numbers
// calls, texts and requests of embeddings; an answer has the number of its call.

// The first message to the model's process: what it loads.
struct LoadModel {
  ServeRequest request;                // without recipes, of the model and of the one that guesses
  std::vector<std::string> overrides;  // of the recipe of the request's checkpoint
};

struct AddTexts {
  std::int64_t call = 0;
  std::int64_t first = 0;  // the number of the first text, which the others follow
  std::vector<ServedText> texts;
};

struct CancelText {
  std::int64_t text = 0;
};

struct EmbedTexts {
  std::int64_t call = 0;
  std::int64_t request = 0;
  std::vector<std::vector<std::int64_t>> texts;
};

struct CancelEmbedding {
  std::int64_t request = 0;
};

struct AskLoad {
  std::int64_t call = 0;
};

using Order = std::variant<LoadModel, AddTexts, CancelText, EmbedTexts, CancelEmbedding, AskLoad>;

// The model is loaded.
struct Ready {
  std::int64_t longest = 0, longest_embedded = 0;  // as TextService says them
};

// The Error that refuses texts.
struct RefusedTexts {
  std::int64_t code = 0;
  std::string message;
};

// To AddTexts and EmbedTexts: whether they are taken, or why not.
struct Taken {
  std::int64_t call = 0;
  bool is_taken = false;
  std::optional<RefusedTexts> refusal;
};

// That an Error refuses them.
Taken refused(std::int64_t call, const Error& error);

struct Grown {
  std::int64_t text = 0;
  ServedToken token;
};

struct Embedded {
  std::int64_t request = 0;
  std::vector<float> embedding;
};

struct LoadFound {
  std::int64_t call = 0;
  TextService::Load load;
};

// Why a process ends: as soon as its service has failed, and, where it comes so far, once more with the exit code.
struct Failed {
  std::int64_t code = 0;  // 0: not known yet
  std::string message;
};

using Report = std::variant<Ready, Taken, Grown, Embedded, LoadFound, Failed>;

std::string encoded(const Order& order);
std::string encoded(const Report& report);

// Throw Error(internal_error) for bytes that are no such message.
Order decoded_order(std::string_view bytes);
Report decoded_report(std::string_view bytes);

}  // namespace llmtrain::remote
