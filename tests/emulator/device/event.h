// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>

#include "tests/emulator/device/stream.h"

namespace emulated {

// One recording of an event: what the stream had been given until then. nullptr is one that has passed.
struct Mark;
using MarkPointer = std::shared_ptr<Mark>;

MarkPointer record(Stream* stream);
void wait(Stream* stream, const MarkPointer& mark);  // the stream waits, not the host
bool query(const MarkPointer& mark);                 // true orders the host after the mark, as on CUDA
bool query(Stream* stream);                          // the same, of all that the stream has been given
double seconds_of(const MarkPointer& mark);          // of a clock that only rises

// Block the host, and are counted as `why`. Throw Fault where that is forbidden, and for an error of the device.
void synchronize(const MarkPointer& mark, const std::string& why);
void synchronize(Stream* stream, const std::string& why);
void synchronize_device(int device, const std::string& why);

// An event is of one device: throws Fault where a stream of another records it.
class Event {
 public:
  explicit Event(int device) : device_(device) {}
  void record(Stream* stream);
  const MarkPointer& mark() const { return mark_; }

 private:
  int device_;
  MarkPointer mark_;
};

}  // namespace emulated
