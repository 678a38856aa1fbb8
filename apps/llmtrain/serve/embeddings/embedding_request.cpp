// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/embeddings/embedding_request.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <bit>
#include <charconv>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <string>
#include <utility>

#include "apps/llmtrain/serve/api_error.h"
#include "apps/llmtrain/serve/request_fields.h"
#include "core/base/printable.h"

namespace llmtrain::app {
namespace {

constexpr std::size_t most_texts = 2048;

EmbeddingRequest::Encoding encoding_of(RequestFields& fields) {
  const std::string encoding = fields.text("encoding_format").value_or("float");
  if (encoding == "float") return EmbeddingRequest::Encoding::numbers;
  if (encoding == "base64") return EmbeddingRequest::Encoding::base64;
  throw ApiError(400, "encoding_format", fmt::format("{} must be float or base64", shown_text(encoding)));
}

void read_input(RequestFields& fields, const ServedModel& model, EmbeddingRequest& request) {
  const Json& input = fields.value("input");
  const auto add = [&](const Json& one) {
    if (one.is_array())
      request.texts.push_back(token_ids_of(one, "input"));
    else if (one.is_string())
      request.texts.push_back(model.tokens_of_embedded(one.get_ref<const std::string&>()));
    else
      throw ApiError(400, "input",
                     shown_value(one) + " must be a text, a list of texts, a list of token ids, or a list of such");
  };
  const bool is_list = input.is_array() && !input.empty() && !input.front().is_number();
  if (!is_list) return add(input);
  if (input.size() > most_texts) throw ApiError(400, "input", fmt::format("has more than {} texts", most_texts));
  for (const Json& one : input) add(one);
}

void cut(std::vector<float>& embedding, std::size_t dimensions) {
  embedding.resize(dimensions);
  double squares = 0;
  for (const float value : embedding) squares += static_cast<double>(value) * static_cast<double>(value);
  if (squares == 0) return;
  const double scale = 1 / std::sqrt(squares);
  for (float& value : embedding) value = static_cast<float>(static_cast<double>(value) * scale);
}

// The number with the fewest digits that are the float's: its own value as a double has more.
double short_number(float value) {
  char text[32];
  const std::to_chars_result written = std::to_chars(std::begin(text), std::end(text), value);
  double number = static_cast<double>(value);
  std::from_chars(std::begin(text), written.ptr, number);
  return number;
}

// Little-endian, whatever the machine.
std::string bytes_of(const std::vector<float>& values) {
  std::string bytes;
  for (const float value : values) {
    const auto bits = std::bit_cast<std::uint32_t>(value);
    for (int shift = 0; shift < 32; shift += 8) bytes += static_cast<char>(bits >> shift & 0xffU);
  }
  return bytes;
}

}  // namespace

std::int64_t EmbeddingRequest::tokens() const {
  std::int64_t count = 0;
  for (const auto& text : texts) count += std::ssize(text);
  return count;
}

EmbeddingRequest read_embedding_request(std::string_view body, const ServedModel& model) {
  RequestFields fields(body);
  EmbeddingRequest request;
  model.require_name(fields.text("model"));
  request.encoding = encoding_of(fields);
  request.dimensions = fields.whole_number("dimensions", 1, model.limits().dimensions).value_or(0);
  fields.ignore({"user"});
  read_input(fields, model, request);
  fields.require_known();
  return request;
}

Json embedding_answer(const ServedModel& model, const EmbeddingRequest& request,
                      std::vector<std::vector<float>> embeddings) {
  Json answer;
  answer["object"] = "list";
  answer["data"] = Json::array();
  for (std::size_t index = 0; index < embeddings.size(); ++index) {
    std::vector<float>& embedding = embeddings[index];
    if (request.dimensions > 0) cut(embedding, static_cast<std::size_t>(request.dimensions));
    Json one;
    one["object"] = "embedding";
    one["index"] = index;
    if (request.encoding == EmbeddingRequest::Encoding::base64) {
      one["embedding"] = in_base64(bytes_of(embedding));
    } else {
      one["embedding"] = Json::array();
      for (const float value : embedding) one["embedding"].push_back(short_number(value));
    }
    answer["data"].push_back(std::move(one));
  }
  answer["model"] = model.name();
  answer["usage"] = {{"prompt_tokens", request.tokens()}, {"total_tokens", request.tokens()}};
  return answer;
}

}  // namespace llmtrain::app
