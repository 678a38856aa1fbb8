// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/remote/message_channel.h"

#include <sys/socket.h>
#include <unistd.h>

#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>

#include "core/base/error.h"

namespace llmtrain::remote {
namespace {

std::array<int, 2> connected() {
  std::array<int, 2> sockets{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) == 0);
  return sockets;
}

TEST_CASE("messages arrive whole and in order, and the end after them") {
  const auto sockets = connected();
  MessageChannel reader(sockets[0]);
  CHECK_FALSE(reader.wait(std::chrono::milliseconds(0)));
  const std::string large(5'000'000, 'x');
  {
    MessageChannel writer(sockets[1]);
    writer.send("");
    for (int i = 0; i < 1000; ++i) writer.send(std::to_string(i));
    writer.send(large);
    std::thread other([&] {
      for (int i = 0; i < 1000; ++i) writer.send_in_turn("turn");
    });
    CHECK(reader.receive() == "");
    for (int i = 0; i < 1000; ++i) REQUIRE(reader.receive() == std::to_string(i));
    // Those of the other thread come anywhere among these.
    bool is_large_there = false;
    for (int turns = 0; turns < 1000;) {
      const auto message = reader.receive();
      is_large_there = is_large_there || message == large;
      turns += message == "turn" ? 1 : 0;
    }
    other.join();
    CHECK(is_large_there);
    writer.send("last");
  }
  CHECK(reader.wait(std::chrono::milliseconds(0)));
  CHECK(reader.receive() == "last");
  CHECK_FALSE(reader.receive());
  reader.send("nobody hears it");
}

TEST_CASE("broken streams are refused") {
  const std::uint32_t huge = 0xFFFF'FFFF, ten = 10;
  for (const auto& [bytes, ends] : {std::pair(std::string(reinterpret_cast<const char*>(&huge), 4), false),
                                    std::pair(std::string(reinterpret_cast<const char*>(&ten), 4) + "abc", true),
                                    std::pair(std::string("ab"), true)}) {
    const auto sockets = connected();
    MessageChannel reader(sockets[0]);
    REQUIRE(::send(sockets[1], bytes.data(), bytes.size(), 0) == static_cast<ssize_t>(bytes.size()));
    if (ends) ::close(sockets[1]);
    CHECK_THROWS_AS(reader.receive(), Error);
    if (!ends) ::close(sockets[1]);
  }
}

TEST_CASE("close ends whoever waits for an end that takes nothing") {
  const auto sockets = connected();
  MessageChannel channel(sockets[0]);
  std::thread sender([&] {
    // More than may be unsent, at an end that reads nothing.
    for (std::size_t bytes = 0; bytes <= 2 * MessageChannel::most_unsent; bytes += std::size_t{1} << 20)
      channel.send_in_turn(std::string(std::size_t{1} << 20, 'x'));
  });
  std::optional<std::string> received = "";
  std::thread receiver([&] { received = channel.receive(); });
  std::this_thread::sleep_for(std::chrono::milliseconds(20));
  channel.close();
  sender.join();
  receiver.join();
  CHECK_FALSE(received);
  ::close(sockets[1]);
}

}  // namespace
}  // namespace llmtrain::remote
