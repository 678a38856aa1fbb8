// SPDX-License-Identifier: Apache-2.0
#include "parallel/runtime/remote/remote_service.h"

#include <sys/socket.h>

#include <array>
#include <atomic>
#include <catch2/catch.hpp>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "core/base/error.h"
#include "parallel/runtime/remote/service_host.h"

namespace llmtrain::remote {
namespace {

// Counts upwards from the last token of each prompt, one token for each text in each step, which the test asks for.
class CountingService final : public TextService {
 public:
  std::int64_t longest() const override { return 100; }
  std::int64_t longest_embedded() const override { return 50; }
  std::vector<std::int64_t> add(const std::vector<ServedText>& texts,
                                const std::vector<ServedListener>& listeners) override {
    const std::lock_guard lock(mutex_);
    for (const ServedText& text : texts)
      if (text.prompt.empty()) throw Error(ExitCode::bad_data, "an empty prompt");
    if (texts_.size() + texts.size() > 2) return {};
    std::vector<std::int64_t> numbers;
    for (std::size_t i = 0; i < texts.size(); ++i) {
      numbers.push_back(next_);
      texts_.emplace(next_++, std::pair(texts[i], listeners[i]));
    }
    return numbers;
  }
  void cancel(std::int64_t text) override {
    const std::lock_guard lock(mutex_);
    cancelled_ += static_cast<int>(texts_.erase(text));
  }
  bool embed(std::vector<std::vector<std::int64_t>> texts, EmbeddingListener listener) override {
    if (texts.size() > 3) return false;
    if (texts.empty()) throw Error(ExitCode::bad_data, "nothing to embed");
    const std::lock_guard lock(mutex_);
    embeddings_.emplace_back(std::move(texts), std::move(listener));
    return true;
  }
  Load load() const override {
    const std::lock_guard lock(mutex_);
    return {.growing = static_cast<std::int64_t>(texts_.size()), .accepted = cancelled_};
  }
  std::optional<std::string> failure() const override {
    return has_failed ? std::optional<std::string>("lost") : std::nullopt;
  }

  void step() {
    const std::lock_guard lock(mutex_);
    for (auto text = texts_.begin(); text != texts_.end();) {
      ServedText& own = text->second.first;
      const std::int64_t token = own.prompt.back() + 1;
      own.prompt.push_back(token);
      const bool is_last = --own.tokens == 0;
      const auto listener = text->second.second;
      const bool goes_on = listener({.id = token, .log_probability = 0.1}) && !is_last;
      text = goes_on ? std::next(text) : texts_.erase(text);
    }
    for (auto& [texts, listener] : embeddings_)
      for (const auto& text : texts)
        if (!listener({static_cast<float>(text.size())})) break;
    embeddings_.clear();
  }

  std::atomic<bool> has_failed = false;

 private:
  mutable std::mutex mutex_;
  std::map<std::int64_t, std::pair<ServedText, ServedListener>> texts_;
  std::vector<std::pair<std::vector<std::vector<std::int64_t>>, EmbeddingListener>> embeddings_;
  std::int64_t next_ = 100;
  std::int64_t cancelled_ = 0;
};

// A service in another thread instead of another process.
class Remote {
 public:
  Remote() {
    REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets_.data()) == 0);
    service = std::make_shared<RemoteService>(std::make_unique<MessageChannel>(sockets_[0]));
    host_ = std::thread([this] {
      MessageChannel channel(sockets_[1]);
      ServiceHost host(channel);
      host.serve(counting);
      if (counting.has_failed) channel.send(encoded(Report(Failed{69, "lost"})));
    });
    std::atomic<bool> is_ready = false;
    hearing_ = std::thread([this, &is_ready] {
      const auto failed = service->hear([&] { is_ready = true; });
      service->fail(failed ? failed->message : "gone");
    });
    while (!is_ready) std::this_thread::yield();
  }
  ~Remote() { end(); }

  void end() {
    if (!hearing_.joinable()) return;
    service->close();
    wait();
  }
  void wait() {
    hearing_.join();
    host_.join();
  }

  CountingService counting;
  std::shared_ptr<RemoteService> service;

 private:
  std::array<int, 2> sockets_{};
  std::thread host_, hearing_;
};

// What a listener has heard, until it has heard `most` tokens.
struct Heard {
  explicit Heard(std::size_t count) : most(count) {}
  ServedListener listener() {
    return [this](const ServedToken& token) {
      const std::lock_guard lock(mutex);
      ids.push_back(token.log_probability == 0.1 ? token.id : -1);
      return ids.size() < most;
    };
  }
  void wait_for(std::size_t count) {
    while (true) {
      const std::lock_guard lock(mutex);
      if (ids.size() >= count) return;
    }
  }
  std::size_t most;
  std::mutex mutex;
  std::vector<std::int64_t> ids;
};

ServedText counting_from(std::int64_t number, std::int64_t tokens) { return {.prompt = {number}, .tokens = tokens}; }

TEST_CASE("texts of another process grow, end and give their places to others") {
  Remote remote;
  TextService& service = *remote.service;
  CHECK(service.longest() == 100);
  CHECK(service.longest_embedded() == 50);
  Heard first(10), second(2), third(10);
  CHECK(service.add({counting_from(10, 3), counting_from(20, 9)}, {first.listener(), second.listener()}).size() == 2);
  CHECK(service.load().growing == 2);
  CHECK(service.add({counting_from(30, 1)}, {third.listener()}).empty());
  CHECK_THROWS_AS(service.add({ServedText{}}, {third.listener()}), Error);
  remote.counting.step();
  remote.counting.step();
  // The listener has ended the second text, so that there is room as soon as anyone may know of it.
  second.wait_for(2);
  const auto numbers = service.add({counting_from(40, 9)}, {third.listener()});
  REQUIRE(numbers.size() == 1);
  CHECK(service.load().accepted == 1);
  remote.counting.step();
  first.wait_for(3);
  third.wait_for(1);
  service.cancel(numbers.front());
  remote.counting.step();
  CHECK(service.load().growing == 0);
  CHECK(first.ids == std::vector<std::int64_t>{11, 12, 13});
  CHECK(second.ids == std::vector<std::int64_t>{21, 22});
  CHECK(third.ids == std::vector<std::int64_t>{41});
  CHECK(service.load().accepted == 2);
}

TEST_CASE("embeddings of another process") {
  Remote remote;
  std::atomic<int> count = 0;
  float last = 0;
  const auto listener = [&](const std::vector<float>& embedding) {
    last = embedding.at(0);
    return ++count != 3;
  };
  CHECK(remote.service->embed({{1}, {2, 3}}, listener));
  remote.counting.step();
  while (count < 2) std::this_thread::yield();
  CHECK(last == 2);
  CHECK_FALSE(remote.service->embed({{1}, {1}, {1}, {1}}, listener));
  CHECK_THROWS_AS(remote.service->embed({}, listener), Error);
  // The listener wants none after the third.
  CHECK(remote.service->embed({{1, 1, 1}, {1}, {1}}, listener));
  remote.counting.step();
  remote.service->load();
  CHECK(count == 3);
  CHECK(last == 3);
}

TEST_CASE("a service that fails says why, and takes nothing more") {
  for (const bool is_said : {true, false}) {
    Remote remote;
    Heard heard(10);
    CHECK(remote.service->add({counting_from(10, 3)}, {heard.listener()}).size() == 1);
    CHECK_FALSE(remote.service->failure());
    if (is_said) {
      remote.counting.has_failed = true;
      remote.wait();
    } else {
      remote.end();
    }
    CHECK(remote.service->failure() == (is_said ? "lost" : "gone"));
    CHECK(remote.service->add({counting_from(10, 3)}, {heard.listener()}).empty());
    CHECK_FALSE(remote.service->embed({{1}}, {}));
    CHECK(remote.service->load().growing == 0);
    CHECK(heard.ids.empty());
  }
}

TEST_CASE("calls that wait end with the service") {
  std::array<int, 2> sockets{};
  REQUIRE(::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets.data()) == 0);
  RemoteService service(std::make_unique<MessageChannel>(sockets[0]));
  auto silent = std::make_unique<MessageChannel>(sockets[1]);
  bool is_added = true, is_embedded = true;
  std::thread caller([&] { is_added = !service.add({counting_from(1, 1)}, {ServedListener()}).empty(); });
  std::thread embedder([&] { is_embedded = service.embed({{1}}, {}); });
  CHECK(silent->receive());
  CHECK(silent->receive());
  // Answers about a text, a request and a call that nobody has asked for.
  silent->send(encoded(Report(Grown{77, {}})));
  silent->send(encoded(Report(Embedded{77, {}})));
  silent->send(encoded(Report(Taken{.call = 77, .is_taken = true, .refusal = {}})));
  silent->send("no message");
  CHECK_THROWS_AS(service.hear([] {}), Error);
  service.fail("it says what is no message");
  caller.join();
  embedder.join();
  CHECK_FALSE(is_added);
  CHECK_FALSE(is_embedded);
}

}  // namespace
}  // namespace llmtrain::remote
