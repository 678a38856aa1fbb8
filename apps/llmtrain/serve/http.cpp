// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/http.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <array>
#include <boost/beast/http.hpp>
#include <chrono>
#include <cstdint>
#include <utility>

namespace llmtrain::app {
namespace {

namespace http = boost::beast::http;
using Parser = http::request_parser<http::string_body>;

constexpr std::uint32_t header_bytes = 16 << 10;
constexpr std::chrono::seconds request_limit{30};

[[noreturn]] void refuse(const boost::system::error_code& error, std::size_t body_bytes) {
  if (error == http::error::body_limit)
    throw HttpRefusal(413, fmt::format("the body has more than {} bytes (--max-body)", body_bytes));
  if (error == http::error::header_limit)
    throw HttpRefusal(431, fmt::format("the headers have more than {} bytes", header_bytes));
  throw HttpRefusal(400, fmt::format("not HTTP as of RFC 9112: {}", error.message()));
}

std::string text_of(boost::string_view view) { return {view.data(), view.size()}; }

HttpRequest request_of(http::request<http::string_body>&& message) {
  HttpRequest request;
  request.method = text_of(message.method_string());
  request.path = text_of(message.target());
  request.path.resize(std::min(request.path.find('?'), request.path.size()));
  request.authorization = text_of(message[http::field::authorization]);
  request.content_type = text_of(message[http::field::content_type]);
  request.body = std::move(message.body());
  request.takes_chunks = message.version() >= 11;
  return request;
}

// Answers what clients with large bodies ask first.
void encourage(Connection& connection, Parser& parser, bool& is_encouraged) {
  if (is_encouraged || !parser.is_header_done()) return;
  is_encouraged = true;
  if (!parser.is_done() && http::token_list(parser.get()[http::field::expect]).exists("100-continue"))
    connection.write("HTTP/1.1 100 Continue\r\n\r\n");
}

std::string head_of(int status, std::string_view content_type, std::string_view headers) {
  const boost::string_view reason = http::obsolete_reason(http::int_to_status(static_cast<unsigned>(status)));
  return fmt::format("HTTP/1.1 {} {}\r\nContent-Type: {}\r\nConnection: close\r\n{}", status, text_of(reason),
                     content_type, headers);
}

}  // namespace

std::optional<HttpRequest> read_request(Connection& connection, std::size_t body_bytes) {
  Parser parser;
  parser.header_limit(header_bytes);
  parser.body_limit(body_bytes);
  parser.eager(true);
  const auto until = Connection::Clock::now() + request_limit;
  std::string unread;
  std::array<char, 16384> memory{};
  std::size_t received = 0;
  bool is_encouraged = false;
  while (!parser.is_done()) {
    const std::size_t count = connection.read(memory.data(), memory.size(), until);
    if (count == 0 && received == 0) return std::nullopt;
    if (count == 0) throw HttpRefusal(408, "the request has not arrived whole");
    received += count;
    unread.append(memory.data(), count);
    boost::system::error_code error;
    unread.erase(0, parser.put(boost::asio::buffer(unread), error));
    if (error && error != http::error::need_more) refuse(error, body_bytes);
    // The parser counts what it has not taken yet, of which headers that are whole are no part.
    if (!parser.is_header_done() && received > header_bytes) refuse(http::error::header_limit, body_bytes);
    encourage(connection, parser, is_encouraged);
  }
  return request_of(parser.release());
}

void write_response(Connection& connection, int status, std::string_view content_type, std::string_view body,
                    std::string_view headers) {
  std::string bytes = head_of(status, content_type, headers);
  bytes += fmt::format("Content-Length: {}\r\n\r\n", body.size());
  bytes += body;
  connection.write(bytes);
}

EventStream::EventStream(Connection& connection, bool in_chunks) : connection_(connection), in_chunks_(in_chunks) {
  connection_.write(head_of(200, "text/event-stream; charset=utf-8", "Cache-Control: no-store\r\n") +
                    (in_chunks ? "Transfer-Encoding: chunked\r\n\r\n" : "\r\n"));
}

void EventStream::send(std::string_view data) { write(fmt::format("data: {}\n\n", data)); }

void EventStream::end() {
  if (in_chunks_) connection_.write("0\r\n\r\n");
}

void EventStream::write(std::string_view bytes) {
  connection_.write(in_chunks_ ? fmt::format("{:x}\r\n{}\r\n", bytes.size(), bytes) : std::string(bytes));
}

}  // namespace llmtrain::app
