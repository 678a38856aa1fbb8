// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/stream.h"

#include <map>
#include <thread>
#include <utility>

#include "tests/emulator/device/fault.h"
#include "tests/emulator/device/settings.h"
#include "tests/emulator/device/world.h"

namespace emulated {
namespace {

constexpr std::size_t pool_size = 32;

thread_local int own_device = 0;
thread_local std::map<int, Stream*> own_streams;

// Mostly nothing, now and then long: both orders of two streams are to occur.
void delay(Stream* stream) {
  const int longest = settings().longest_delay;
  if (longest <= 0 || stream->random() % 16 != 0) return;
  std::this_thread::sleep_for(std::chrono::microseconds(stream->random() % static_cast<unsigned>(longest)));
}

void run(Stream* stream, const std::function<void()>& task) {
  try {
    task();
  } catch (const std::exception& error) {
    world().device(stream->device).errors.report(error.what());
  }
}

void work_off(Stream* stream) {
  world().protection.admit_this_thread();
  std::unique_lock lock(stream->mutex);
  while (true) {
    stream->changed.wait(lock, [&] { return !stream->queue.empty(); });
    {
      const std::function<void()> task = std::move(stream->queue.front());
      stream->queue.pop_front();
      stream->is_busy = true;
      lock.unlock();
      delay(stream);
      run(stream, task);
    }
    lock.lock();
    stream->is_busy = false;
  }
}

}  // namespace

void push(Stream* stream, std::function<void()> task) {
  const std::lock_guard lock(stream->mutex);
  stream->queue.push_back(std::move(task));
  if (stream->queue.size() == 1) stream->changed.notify_one();
}

Stream* new_stream(int device) {
  World& w = world();
  const std::lock_guard lock(w.mutex);
  ++w.device(device).counters.streams;
  auto* stream = new Stream;  // handles may be kept anywhere
  stream->id = w.streams.size();
  stream->device = device;
  stream->random.seed(settings().seed * 1000 + stream->id);
  w.streams.push_back(stream);
  std::thread(work_off, stream).detach();
  return stream;
}

Stream* default_stream(int device) {
  const std::lock_guard lock(world().mutex);
  Device& d = world().device(device);
  if (d.stream == nullptr) d.stream = new_stream(device);
  return d.stream;
}

Stream* pool_stream(int device) {
  const std::lock_guard lock(world().mutex);
  Device& d = world().device(device);
  const std::size_t place = d.next_in_pool++ % pool_size;
  if (place == d.pool.size()) d.pool.push_back(new_stream(device));
  return d.pool[place];
}

void destroy(Stream* stream) { count(stream->device, &Counters::streams_destroyed); }

Stream* find_stream(std::int64_t id) {
  const std::lock_guard lock(world().mutex);
  if (id <= 0 || static_cast<std::size_t>(id) >= world().streams.size())
    throw Fault("there is no stream " + std::to_string(id));
  return world().streams[static_cast<std::size_t>(id)];
}

std::int64_t id_of(const Stream* stream) { return static_cast<std::int64_t>(stream->id); }
int device_of(const Stream* stream) { return stream->device; }

int current_device() { return own_device; }

int exchange_device(int device) {
  world().device(device);
  return std::exchange(own_device, device);
}

Stream* current_stream(int device) {
  Stream*& own = own_streams[device];
  if (own == nullptr) own = default_stream(device);
  return own;
}

Stream* exchange_stream(Stream* stream) {
  Stream* const before = current_stream(stream->device);
  own_streams[stream->device] = stream;
  return before;
}

bool is_captured(Stream* stream) {
  const std::lock_guard lock(world().mutex);
  return stream->capture != nullptr;
}

bool is_idle(Stream* stream) {
  const std::lock_guard lock(stream->mutex);
  return stream->queue.empty() && !stream->is_busy;
}

}  // namespace emulated
