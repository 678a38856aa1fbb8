// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>

namespace emulated {

struct Stream;  // lives as long as the process

Stream* default_stream(int device);
Stream* new_stream(int device);
Stream* pool_stream(int device);       // one of the device's 32, in turn, as LibTorch has them
void destroy(Stream* stream);          // is counted; what it was given still runs
Stream* find_stream(std::int64_t id);  // ids are unique over all devices
std::int64_t id_of(const Stream* stream);
int device_of(const Stream* stream);

// Each host thread has a current device and, for every device, a current stream.
int current_device();
int exchange_device(int device);  // returns the one before; throws Fault if there is none of this number
Stream* current_stream(int device);
Stream* exchange_stream(Stream* stream);  // returns its device's one before

bool is_idle(Stream* stream);
bool is_captured(Stream* stream);  // at present

}  // namespace emulated
