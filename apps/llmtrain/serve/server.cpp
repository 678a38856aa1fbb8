// SPDX-License-Identifier: Apache-2.0
#include "apps/llmtrain/serve/server.h"

#include <netdb.h>
#include <poll.h>
#include <spdlog/fmt/fmt.h>
#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "core/base/error.h"
#include "core/base/log.h"

namespace llmtrain::app {
namespace {

using Addresses = std::unique_ptr<addrinfo, decltype(&::freeaddrinfo)>;

Addresses addresses_of(const std::string& host, std::int64_t port) {
  addrinfo hints{};
  hints.ai_family = AF_UNSPEC;
  hints.ai_socktype = SOCK_STREAM;
  hints.ai_flags = AI_PASSIVE | AI_NUMERICSERV;
  addrinfo* found = nullptr;
  const int failed = ::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  if (failed != 0) throw Error(ExitCode::missing_input, fmt::format("--host: {}: {}", host, ::gai_strerror(failed)));
  return {found, &::freeaddrinfo};
}

int listen_at(const addrinfo& address) {
  const int made = ::socket(address.ai_family, address.ai_socktype | SOCK_CLOEXEC, address.ai_protocol);
  if (made < 0) return -1;
  const int yes = 1;
  // A server that starts again must not wait for the connections of the one before.
  ::setsockopt(made, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof yes);
  if (::bind(made, address.ai_addr, address.ai_addrlen) == 0 && ::listen(made, SOMAXCONN) == 0) return made;
  const int error = errno;
  ::close(made);
  errno = error;
  return -1;
}

std::string address_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof address;
  std::array<char, NI_MAXHOST> host{};
  std::array<char, NI_MAXSERV> port{};
  if (::getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) != 0 ||
      ::getnameinfo(reinterpret_cast<sockaddr*>(&address), size, host.data(), host.size(), port.data(), port.size(),
                    NI_NUMERICHOST | NI_NUMERICSERV) != 0)
    return "http://?";
  return address.ss_family == AF_INET6 ? fmt::format("http://[{}]:{}", host.data(), port.data())
                                       : fmt::format("http://{}:{}", host.data(), port.data());
}

// The threads of clients, which all end before it does.
class ClientThreads {
 public:
  explicit ClientThreads(std::int64_t most) : most_(most) {}
  ~ClientThreads() {
    std::unique_lock lock(mutex_);
    has_ended_.wait(lock, [&] { return count_ == 0; });
  }
  ClientThreads(const ClientThreads&) = delete;
  ClientThreads& operator=(const ClientThreads&) = delete;

  // Whether there is room for another one, which it starts then.
  template <class Work>
  bool start(Work work) {
    {
      const std::lock_guard lock(mutex_);
      if (count_ == most_) return false;
      ++count_;
    }
    try {
      std::thread([this, work = std::move(work)] {
        work();
        const std::lock_guard lock(mutex_);
        --count_;
        has_ended_.notify_one();
      }).detach();
    } catch (const std::system_error&) {
      const std::lock_guard lock(mutex_);
      --count_;
      return false;
    }
    return true;
  }

 private:
  std::int64_t most_, count_ = 0;
  std::mutex mutex_;
  std::condition_variable has_ended_;
};

}  // namespace

Listener::Listener(const std::string& host, std::int64_t port) {
  const Addresses addresses = addresses_of(host, port);
  for (const addrinfo* address = addresses.get(); address != nullptr && socket_ < 0; address = address->ai_next)
    socket_ = listen_at(*address);
  if (socket_ < 0)
    throw Error(ExitCode::cannot_write, fmt::format("--port: cannot listen at {} of {}: {}", port, host,
                                                    std::generic_category().message(errno)));
  address_ = address_of(socket_);
}

Listener::~Listener() { ::close(socket_); }

int Listener::accept() {
  pollfd asked{.fd = socket_, .events = POLLIN, .revents = 0};
  if (::poll(&asked, 1, 100) <= 0) return -1;
  const int client = ::accept4(socket_, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
  // Out of files, say: the client waits until there are some.
  if (client < 0 && (errno == EMFILE || errno == ENFILE)) std::this_thread::sleep_for(std::chrono::milliseconds(100));
  return client;
}

void serve_clients(Listener& listener, RequestHandler& handler, std::int64_t clients,
                   const std::function<bool()>& ends) {
  ClientThreads threads(clients);
  const auto is_draining = [&handler] { return handler.is_draining(); };
  while (!ends()) {
    const int client = listener.accept();
    if (client < 0) continue;
    const auto connection = std::make_shared<Connection>(client, is_draining);
    if (!threads.start([connection, &handler] { handler.serve(*connection); })) RequestHandler::refuse(*connection);
  }
  handler.drain();
}

}  // namespace llmtrain::app
