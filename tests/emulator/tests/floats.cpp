// SPDX-License-Identifier: Apache-2.0
#include "tests/emulator/tests/floats.h"

#include <cstring>

namespace emulated::test {
namespace {

struct Parameters {
  float* x;
  float* y;
  std::size_t count;
  float value;
};

}  // namespace

Floats device_floats(std::size_t count, int device) {
  return {static_cast<float*>(allocate(device, count * sizeof(float))), count};
}

Floats pinned_floats(std::size_t count) { return {static_cast<float*>(allocate_pinned(count * sizeof(float))), count}; }

void set(Stream* stream, const Floats& x, float value) {
  launch<Parameters>(stream, "set", {x.written()}, {x.data, nullptr, x.count, value}, [](const Parameters& p) {
    for (std::size_t i = 0; i < p.count; ++i) p.x[i] = p.value;
  });
}

void add(Stream* stream, const Floats& x, float value) {
  launch<Parameters>(stream, "add", {x.written()}, {x.data, nullptr, x.count, value}, [](const Parameters& p) {
    for (std::size_t i = 0; i < p.count; ++i) p.x[i] += p.value;
  });
}

void copy(Stream* stream, const Floats& from, const Floats& to) {
  launch<Parameters>(stream, "copy", {from.read(), to.written()}, {from.data, to.data, from.count, 0},
                     [](const Parameters& p) { std::memcpy(p.y, p.x, p.count * sizeof(float)); });
}

void order(Stream* earlier, Stream* later) { wait(later, record(earlier)); }

float first_of(Stream* stream, const Floats& x) {
  const Floats host = pinned_floats(1);
  copy(stream, {x.data, 1}, host);
  synchronize(stream, "a test");
  const float value = host.data[0];
  release_pinned(host.data);
  return value;
}

}  // namespace emulated::test
