// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "apps/llmtrain/serve/served_model.h"
#include "core/json/json_text.h"

namespace llmtrain::app {

// What a body of /v1/embeddings asks for.
struct EmbeddingRequest {
  enum class Encoding { numbers, base64 };

  std::vector<std::vector<std::int64_t>> texts;
  Encoding encoding = Encoding::numbers;
  std::int64_t dimensions = 0;  // of each embedding, the first ones of the model's; 0: all

  std::int64_t tokens() const;
};

// Throws ApiError: 400 for what is not a request, of which it names the field; 404 for another model.
EmbeddingRequest read_embedding_request(std::string_view body, const ServedModel& model);

// The answer, in the form of OpenAI's interface, of the texts' embeddings in their order. Those that are cut to the
// dimensions asked for have length 1 again (Kusupati et al., Matryoshka Representation Learning, arXiv 2205.13147, for
// models that were trained so).
Json embedding_answer(const ServedModel& model, const EmbeddingRequest& request,
                      std::vector<std::vector<float>> embeddings);

}  // namespace llmtrain::app
