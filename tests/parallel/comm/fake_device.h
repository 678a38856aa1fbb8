// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

#include "parallel/comm/staged/staged_world.h"

namespace llmtrain::test {

// An event that threads wait for.
class FakeMark : public StagingDevice::Mark {
 public:
  FakeMark();
  bool has_passed() const override;
  void pass() const;
  void wait() const;

  // A copy refers to the same event.
  FakeMark(const FakeMark&) = default;
  FakeMark& operator=(const FakeMark&) = default;

 private:
  struct State {
    std::mutex mutex;
    std::condition_variable changed;
    bool has_passed = false;
  };
  std::shared_ptr<State> state_;
};

// A thread that executes tasks in order while its user continues, like a GPU's stream.
class FakeStream {
 public:
  FakeStream();
  // Executes all queued tasks.
  ~FakeStream();
  FakeStream(const FakeStream&) = delete;
  FakeStream& operator=(const FakeStream&) = delete;

  void put(std::function<void()> work);
  FakeMark mark();

 private:
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> work_;
  bool has_stopped_ = false;
  std::thread thread_;
};

// A device whose memory is host memory and whose streams are threads. Without a compute stream the calling thread is
// the computation: it sees results as soon as wait() has returned.
class FakeDevice : public StagingDevice {
 public:
  // `computation` outlives this, or is null.
  explicit FakeDevice(FakeStream* computation) : computation_(computation) {}

  void enter_thread() override {}
  std::shared_ptr<std::byte> host_memory(std::int64_t bytes) override;
  MarkPointer mark_computation() override;
  void hold_computation(const Mark& mark) override;
  MarkPointer copy_out(const Mark& after, std::byte* host, const void* device, std::int64_t bytes) override;
  MarkPointer copy_in(const Mark& after, void* device, const std::byte* host, std::int64_t bytes) override;

 private:
  FakeStream* computation_;
  FakeStream out_, in_;
};

}  // namespace llmtrain::test
