// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>

#include "apps/llmtrain/serve/connection.h"

namespace llmtrain::app {

struct HttpRequest {
  std::string method;
  std::string path;  // without a query
  std::string authorization, content_type;
  std::string body;
  bool takes_chunks = true;  // HTTP/1.1
};

// What a request is refused with before anyone has seen what it asks for.
class HttpRefusal : public std::runtime_error {
 public:
  HttpRefusal(int status, const std::string& reason) : std::runtime_error(reason), status_(status) {}
  int status() const { return status_; }

 private:
  int status_;
};

// Reads one request (RFC 9112), by Boost.Beast's parser. None where the client sends nothing. Throws HttpRefusal: 400
// for what is no HTTP, 408 where it does not arrive within half a minute, 413 beyond `body_bytes`, 431 for headers
// beyond 16 KiB; ConnectionLost.
std::optional<HttpRequest> read_request(Connection& connection, std::size_t body_bytes);

// An answer as a whole. `headers`: further lines, each with its end. The connection ends after it.
void write_response(Connection& connection, int status, std::string_view content_type, std::string_view body,
                    std::string_view headers = {});

// An answer of server-sent events (WHATWG HTML, section 9.2), each written at once.
class EventStream {
 public:
  EventStream(Connection& connection, bool in_chunks);
  void send(std::string_view data);
  void end();

 private:
  void write(std::string_view bytes);

  Connection& connection_;
  bool in_chunks_;
};

}  // namespace llmtrain::app
