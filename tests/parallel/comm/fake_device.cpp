// SPDX-License-Identifier: Apache-2.0
#include "tests/parallel/comm/fake_device.h"

#include <cstring>
#include <utility>

namespace llmtrain::test {
namespace {

const FakeMark& fake(const StagingDevice::Mark& mark) { return dynamic_cast<const FakeMark&>(mark); }

StagingDevice::MarkPointer copy(FakeStream& stream, const FakeMark& after, void* to, const void* from,
                                std::int64_t bytes) {
  stream.put([=] {
    after.wait();
    std::memcpy(to, from, static_cast<std::size_t>(bytes));
  });
  return std::make_shared<FakeMark>(stream.mark());
}

}  // namespace

FakeMark::FakeMark() : state_(std::make_shared<State>()) {}

bool FakeMark::has_passed() const {
  const std::lock_guard lock(state_->mutex);
  return state_->has_passed;
}

void FakeMark::pass() const {
  {
    const std::lock_guard lock(state_->mutex);
    state_->has_passed = true;
  }
  state_->changed.notify_all();
}

void FakeMark::wait() const {
  std::unique_lock lock(state_->mutex);
  state_->changed.wait(lock, [this] { return state_->has_passed; });
}

FakeStream::FakeStream() : thread_([this] { run(); }) {}

FakeStream::~FakeStream() {
  {
    const std::lock_guard lock(mutex_);
    has_stopped_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void FakeStream::put(std::function<void()> work) {
  {
    const std::lock_guard lock(mutex_);
    work_.push_back(std::move(work));
  }
  changed_.notify_all();
}

FakeMark FakeStream::mark() {
  const FakeMark mark;
  put([mark] { mark.pass(); });
  return mark;
}

void FakeStream::run() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait(lock, [this] { return has_stopped_ || !work_.empty(); });
    if (work_.empty()) return;
    const std::function<void()> work = std::move(work_.front());
    work_.pop_front();
    lock.unlock();
    work();
    lock.lock();
  }
}

std::shared_ptr<std::byte> FakeDevice::host_memory(std::int64_t bytes) {
  return {new std::byte[static_cast<std::size_t>(bytes)], std::default_delete<std::byte[]>()};
}

StagingDevice::MarkPointer FakeDevice::mark_computation() {
  if (computation_ != nullptr) return std::make_shared<FakeMark>(computation_->mark());
  auto mark = std::make_shared<FakeMark>();
  mark->pass();
  return mark;
}

void FakeDevice::hold_computation(const Mark& mark) {
  if (computation_ == nullptr) return fake(mark).wait();
  computation_->put([held = fake(mark)] { held.wait(); });
}

StagingDevice::MarkPointer FakeDevice::copy_out(const Mark& after, std::byte* host, const void* device,
                                                std::int64_t bytes) {
  return copy(out_, fake(after), host, device, bytes);
}

StagingDevice::MarkPointer FakeDevice::copy_in(const Mark& after, void* device, const std::byte* host,
                                               std::int64_t bytes) {
  return copy(in_, fake(after), device, host, bytes);
}

}  // namespace llmtrain::test
