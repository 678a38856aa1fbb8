// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "apps/llmtrain/serve/request_handler.h"

namespace llmtrain::app {

// Sockets that listen at an address.
class Listener {
 public:
  // Port 0: any that is free. Throws Error(missing_input) where the address is not known, Error(cannot_write) where it
  // cannot be listened at, as it is taken.
  Listener(const std::string& host, std::int64_t port);
  ~Listener();
  Listener(const Listener&) = delete;
  Listener& operator=(const Listener&) = delete;

  // "http://127.0.0.1:8000"
  const std::string& address() const { return address_; }
  // A client's socket; -1 where none came for a while.
  int accept();

 private:
  int socket_ = -1;
  std::string address_;
};

// Answers clients, of whom at most `clients` are connected at once, until `ends` says so; then those that have begun.
void serve_clients(Listener& listener, RequestHandler& handler, std::int64_t clients,
                   const std::function<bool()>& ends);

}  // namespace llmtrain::app
