// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/device/event.h"

#include "tests/emulator/device/fault.h"
#include "tests/emulator/device/world.h"

namespace emulated {
namespace {

using SteadyClock = std::chrono::steady_clock;

// In a capture nothing runs that could be waited for.
MarkPointer captured_mark(int device) {
  auto mark = std::make_shared<Mark>();
  mark->device = device;
  mark->is_captured = true;
  mark->has_passed = true;
  mark->time = SteadyClock::now();
  return mark;
}

void pass(Mark& mark) {
  const std::lock_guard lock(mark.mutex);
  mark.has_passed = true;
  mark.time = SteadyClock::now();
  mark.passed.notify_all();
}

}  // namespace

void await(const MarkPointer& mark) {
  std::unique_lock lock(mark->mutex);
  mark->passed.wait(lock, [&] { return mark->has_passed; });
}

bool has_passed(const MarkPointer& mark) {
  const std::lock_guard lock(mark->mutex);
  return mark->has_passed;
}

MarkPointer record(Stream* stream) {
  const std::lock_guard lock(world().mutex);
  if (stream->capture != nullptr) return captured_mark(stream->device);
  stream->clock.join(world().device(stream->device).host);
  auto mark = std::make_shared<Mark>();
  mark->device = stream->device;
  mark->clock = stream->clock;
  push(stream, [mark] { pass(*mark); });
  return mark;
}

void wait(Stream* stream, const MarkPointer& mark) {
  if (mark == nullptr) return;
  const std::lock_guard lock(world().mutex);
  if (mark->is_captured && stream->capture == nullptr) throw Fault("a stream waits for an event that is captured");
  if (stream->capture != nullptr && !mark->is_captured)
    throw Fault("a stream that is captured waits for an event from outside of the capture");
  if (stream->capture != nullptr) return;
  stream->clock.join(mark->clock);
  push(stream, [mark] { await(mark); });
}

bool query(const MarkPointer& mark) {
  if (mark == nullptr) return true;
  const std::lock_guard lock(world().mutex);
  world().device(mark->device).errors.raise();
  if (!has_passed(mark)) return false;
  learn(mark->device, mark->clock);
  return true;
}

bool query(Stream* stream) {
  const std::lock_guard lock(world().mutex);
  world().device(stream->device).errors.raise();
  if (!is_idle(stream)) return false;
  learn(stream->device, stream->clock);
  return true;
}

double seconds_of(const MarkPointer& mark) {
  if (mark == nullptr) throw Fault("an event that was never recorded has no time");
  const std::lock_guard lock(mark->mutex);
  if (!mark->has_passed) throw Fault("an event that has not passed has no time");
  return std::chrono::duration<double>(mark->time.time_since_epoch()).count();
}

void synchronize(const MarkPointer& mark, const std::string& why) {
  if (mark == nullptr) return;
  {
    const std::lock_guard lock(world().mutex);
    count_wait(mark->device, why);
  }
  await(mark);
  const std::lock_guard lock(world().mutex);
  learn(mark->device, mark->clock);
  world().device(mark->device).errors.raise();
}

void synchronize(Stream* stream, const std::string& why) {
  if (is_capturing()) throw Fault("synchronisation while a graph is captured: " + why);
  synchronize(record(stream), why);
}

void synchronize_device(int device, const std::string& why) {
  std::vector<MarkPointer> marks;
  {
    const std::lock_guard lock(world().mutex);
    count_wait(device, why);
    for (Stream* stream : world().streams)
      if (stream != nullptr && stream->device == device) marks.push_back(record(stream));
  }
  for (const MarkPointer& mark : marks) await(mark);
  const std::lock_guard lock(world().mutex);
  for (const MarkPointer& mark : marks) learn(device, mark->clock);
  check_guard_zones(device);
  world().device(device).errors.raise();
}

void Event::record(Stream* stream) {
  if (device_of(stream) != device_)
    throw Fault("an event of device " + std::to_string(device_) + " is recorded on a stream of device " +
                std::to_string(device_of(stream)));
  mark_ = emulated::record(stream);
}

}  // namespace emulated
