// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/request_handler.h"

#include <spdlog/fmt/fmt.h>

#include <chrono>
#include <exception>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "apps/llmtrain/serve/api_error.h"
#include "apps/llmtrain/serve/chat_page.h"
#include "apps/llmtrain/serve/embeddings/embedding_answers.h"
#include "apps/llmtrain/serve/embeddings/embedding_request.h"
#include "apps/llmtrain/serve/text_request.h"
#include "core/base/error.h"
#include "core/base/log.h"

namespace llmtrain::app {
namespace {

constexpr const char* json_type = "application/json";
const std::set<std::string> read_paths{"/", "/health", "/metrics", "/v1/models"};
const std::set<std::string> write_paths{"/v1/completions", "/v1/chat/completions", "/v1/embeddings", "/tokenize"};

// Takes as long whatever is different.
bool are_equal(std::string_view a, std::string_view b) {
  unsigned difference = a.size() == b.size() ? 0 : 1;
  for (std::size_t i = 0; i < a.size(); ++i)
    difference |= static_cast<unsigned char>(a[i]) ^ static_cast<unsigned char>(b.empty() ? 0 : b[i % b.size()]);
  return difference == 0;
}

// Ends the texts of a client that is no longer answered.
class TextsOfRequest {
 public:
  TextsOfRequest(TextService& service, std::vector<std::int64_t> numbers, GrowingAnswers& answers)
      : service_(service), numbers_(std::move(numbers)), answers_(answers) {}
  ~TextsOfRequest() {
    if (are_over_) return;
    answers_.abandon();
    for (const std::int64_t number : numbers_) service_.cancel(number);
  }
  TextsOfRequest(const TextsOfRequest&) = delete;
  TextsOfRequest& operator=(const TextsOfRequest&) = delete;

  void end() { are_over_ = true; }

 private:
  TextService& service_;
  std::vector<std::int64_t> numbers_;
  GrowingAnswers& answers_;
  bool are_over_ = false;
};

// Throws ApiError(503) with the reason where the model has failed.
void require_running(const TextService& service) {
  if (const auto failure = service.failure()) throw ApiError(503, "", *failure);
}

// Says why the service takes no more.
[[noreturn]] void refuse_more(const TextService& service) {
  require_running(service);
  throw ApiError(429, "", "as many texts grow and wait as may; ask again later");
}

// A refusal that asks the client to come again.
std::string waiting_headers(int status) { return status == 429 || status == 503 ? "Retry-After: 1\r\n" : ""; }

}  // namespace

void RequestHandler::serve(Connection& connection) noexcept {
  try {
    HttpRequest request;
    try {
      auto read = read_request(connection, settings_.body_bytes);
      if (!read) return;
      request = std::move(*read);
      answer(connection, request);
    } catch (const HttpRefusal& refusal) {
      send(connection, request, refusal.status(), json_type, error_text(refusal.status(), "", refusal.what()));
    } catch (const ApiError& error) {
      send(connection, request, error.status(), json_type, error_text(error.status(), error.field(), error.what()),
           waiting_headers(error.status()));
    }
    connection.finish();
  } catch (const ConnectionLost&) {
    metrics_.add_lost_client();
  } catch (const std::exception& error) {
    log().error("a request failed: {}", error.what());
  }
}

void RequestHandler::refuse(Connection& connection) noexcept {
  try {
    write_response(connection, 503, json_type, error_text(503, "", "too many clients are connected"),
                   waiting_headers(503));
  } catch (const std::exception&) {
    // It has gone.
  }
}

void RequestHandler::send(Connection& connection, const HttpRequest& request, int status,
                          const std::string& content_type, const std::string& body, const std::string& headers) {
  const bool is_known = read_paths.contains(request.path) || write_paths.contains(request.path);
  metrics_.add_request(is_known ? request.path : "other", status);
  write_response(connection, status, content_type, body, headers);
}

void RequestHandler::require_key(const HttpRequest& request) const {
  // The page holds nothing, and asks for the key itself.
  if (settings_.api_key.empty() || request.path == "/health" || request.path == "/") return;
  constexpr std::string_view scheme = "Bearer ";
  const std::string_view given = request.authorization;
  if (!given.starts_with(scheme) || !are_equal(given.substr(scheme.size()), settings_.api_key))
    throw ApiError(401, "", "this server asks for its key, as in \"Authorization: Bearer KEY\"");
}

void RequestHandler::answer(Connection& connection, const HttpRequest& request) {
  require_key(request);
  if (read_paths.contains(request.path)) {
    if (request.method != "GET") throw ApiError(405, "", request.path + " answers GET");
    if (request.path == "/" && !model_.writes_texts())
      throw ApiError(404, "", "an encoder has no page: it writes no text; /v1/embeddings embeds texts");
    if (request.path == "/")
      return send(connection, request, 200, "text/html; charset=utf-8", chat_page(), chat_page_headers);
    std::string content_type = json_type;
    const std::string text = page(request, content_type);
    return send(connection, request, 200, content_type, text);
  }
  if (!write_paths.contains(request.path)) throw ApiError(404, "", "there is nothing at this path");
  if (request.method != "POST") throw ApiError(405, "", request.path + " answers POST");
  // A page of another site can make a browser send other types without asking.
  if (!request.content_type.starts_with(json_type))
    throw ApiError(415, "", "the body must be JSON: send \"Content-Type: application/json\"");
  if (request.path == "/tokenize") return send(connection, request, 200, json_type, tokenized(request.body));
  if (request.path == "/v1/embeddings") return answer_embeddings(connection, request);
  if (!model_.writes_texts())
    throw ApiError(400, "model", "is an encoder, which writes no text; /v1/embeddings embeds texts");
  answer_texts(connection, request, request.path == "/v1/completions" ? ApiKind::completions : ApiKind::chat);
}

std::string RequestHandler::page(const HttpRequest& request, std::string& content_type) const {
  if (request.path == "/metrics") {
    content_type = "text/plain; version=0.0.4; charset=utf-8";
    return metrics_.text(kept_.service()->load(), kept_.restarts());
  }
  if (request.path == "/health") {
    require_running(*kept_.service());
    if (is_draining_) throw ApiError(503, "", "the server is ending");
    return R"({"status":"ok"})";
  }
  Json model = {{"id", model_.name()}, {"object", "model"}, {"owned_by", "llmtrain"}};
  model["max_model_len"] = model_.longest();
  model["has_chat_template"] = model_.has_chat_template();
  Json answer;
  answer["object"] = "list";
  answer["data"] = Json::array();
  answer["data"].push_back(std::move(model));
  return json_line(answer);
}

std::string RequestHandler::tokenized(const std::string& body) {
  RequestFields fields(body);
  model_.require_name(fields.text("model"));
  const auto prompt = fields.text("prompt");
  const Json& messages = fields.value("messages");
  if (prompt.has_value() == !messages.is_null())
    throw ApiError(400, "prompt", "either a \"prompt\" or \"messages\" are turned into tokens");
  const auto tokens = !prompt                 ? model_.tokens_of_chat(messages)
                      : model_.writes_texts() ? model_.tokens_of_text(*prompt)
                                              : model_.tokens_of_embedded(*prompt);
  fields.require_known();
  Json answer;
  answer["tokens"] = tokens;
  answer["count"] = tokens.size();
  answer["max_model_len"] = model_.longest();
  return json_line(answer);
}

void RequestHandler::answer_texts(Connection& connection, const HttpRequest& http, ApiKind kind) {
  if (is_draining_) throw ApiError(503, "", "the server is ending, and takes no new requests");
  const ApiRequest request = read_api_request(kind, http.body, model_);
  // That of one process: texts end with it, also where another one has taken its place.
  const std::shared_ptr<TextService> service = kept_.service();
  const auto answers = std::make_shared<GrowingAnswers>(model_, request);
  std::vector<std::int64_t> numbers;
  try {
    numbers = service->add(request.texts(), answers->listeners());
  } catch (const Error& error) {
    throw ApiError(400, kind == ApiKind::chat ? "messages" : "prompt", error.what());
  }
  if (numbers.empty()) refuse_more(*service);
  TextsOfRequest texts(*service, numbers, *answers);
  AnswerText text(model_, request);
  std::optional<EventStream> stream;
  if (request.streams) {
    metrics_.add_request(http.path, 200);
    stream.emplace(connection, http.takes_chunks);
    for (std::size_t choice = 0; choice < numbers.size(); ++choice)
      if (const Json opening = text.opening(choice); !opening.is_null()) stream->send(json_line(opening));
  }
  follow(connection, *service, *answers, text, stream ? &*stream : nullptr);
  texts.end();
  metrics_.add_tokens(request.prompt_tokens(), text.generated_tokens());
  if (!stream) return send(connection, http, 200, json_type, json_line(text.whole()));
  if (request.streams_usage) stream->send(json_line(text.usage_event()));
  stream->send("[DONE]");
  stream->end();
}

void RequestHandler::answer_embeddings(Connection& connection, const HttpRequest& http) {
  if (is_draining_) throw ApiError(503, "", "the server is ending, and takes no new requests");
  const EmbeddingRequest request = read_embedding_request(http.body, model_);
  const std::shared_ptr<TextService> service = kept_.service();
  const auto answers = std::make_shared<EmbeddingAnswers>(request.texts.size());
  try {
    if (!service->embed(request.texts, answers->listener())) refuse_more(*service);
  } catch (const Error& error) {
    throw ApiError(400, "input", error.what());
  }
  while (!answers->wait(std::chrono::milliseconds(100))) {
    if (connection.is_gone()) {
      answers->abandon();
      throw ConnectionLost("the client has left");
    }
    require_running(*service);
  }
  metrics_.add_tokens(request.tokens(), 0);
  send(connection, http, 200, json_type, json_line(embedding_answer(model_, request, answers->take())));
}

void RequestHandler::follow(Connection& connection, const TextService& service, GrowingAnswers& answers,
                            AnswerText& text, EventStream* stream) {
  using Clock = std::chrono::steady_clock;
  const Clock::time_point start = Clock::now();
  std::size_t ended = 0;
  while (ended < answers.choices()) {
    const std::optional<AnswerPiece> piece = answers.take(std::chrono::milliseconds(100));
    if (connection.is_gone()) throw ConnectionLost("the client has left");
    if (!piece) {
      const auto failure = service.failure();
      if (failure && stream == nullptr) throw ApiError(503, "", *failure);
      if (failure) throw ConnectionLost(*failure);
      continue;
    }
    if (text.generated_tokens() == 0)
      metrics_.add_first_token(std::chrono::duration<double>(Clock::now() - start).count());
    ended += piece->finish ? 1 : 0;
    const Json event = text.event(*piece);
    if (stream != nullptr && !event.is_null()) stream->send(json_line(event));
  }
}

}  // namespace llmtrain::app
