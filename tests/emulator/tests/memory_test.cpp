// SPDX-License-Identifier: Apache-2.0
#include <catch2/catch.hpp>
#include <cmath>

#include "tests/emulator/tests/child_program.h"
#include "tests/emulator/tests/floats.h"

using namespace emulated;
using namespace emulated::test;

namespace {

constexpr std::size_t mebibyte = std::size_t{1} << 20;

// A kernel that writes one number at `offset` from its block's begin.
struct Write {
  float* x;
  std::ptrdiff_t offset;
};
void write_at(const Floats& x, std::ptrdiff_t offset) {
  launch<Write>(default_stream(0), "a careless kernel", {x.written()}, {x.data, offset},
                [](const Write& p) { p.x[p.offset] = 1; });
}

void write_and_wait(std::ptrdiff_t offset) {
  const Floats x = device_floats(1000);
  write_at(x, offset);
  synchronize(default_stream(0), "a test");
}

}  // namespace

TEST_CASE("A kernel may use all of its block, and no byte beside it") {
  must_be_right([] { write_and_wait(0), write_and_wait(999); });
  // 1000 numbers are 4000 bytes, in a block of 4096.
  must_be_caught("a careless kernel writes 0 bytes behind the end of 4000 bytes", [] { write_and_wait(1000); });
  must_be_caught("a careless kernel writes 96 bytes behind the end of 4000 bytes", [] { write_and_wait(1024); });
  must_be_caught("a careless kernel writes 4 bytes before the begin of 4000 bytes", [] { write_and_wait(-1); });
}

TEST_CASE("What is written far from the kernel's block is found when the host waits for the device") {
  must_be_caught("something has written 4 bytes before the begin of 4096 bytes of device memory, which set", [] {
    const Floats x = device_floats(1000), y = device_floats(1000);
    set(default_stream(0), y, 1);
    synchronize(default_stream(0), "a test");
    write_at(x, y.data - x.data - 1);
    synchronize_device(0, "a test");
  });
}

TEST_CASE("Overruns that are only logged are counted, each once") {
  must_be_right([] {
    settings().throws = false;
    write_and_wait(1000);
    synchronize_device(0, "a test");
    expect(counters(0).overruns == 1, "one overrun");
  });
}

TEST_CASE("A block is freed once, by its begin, and not used afterwards") {
  must_be_caught("device memory is freed twice", [] {
    const Floats x = device_floats(10);
    release(x.data);
    release(x.data);
  });
  must_be_caught("device memory is freed that was not allocated", [] { release(device_floats(10).data + 1); });
  must_be_caught("memory is freed that is not the device's", [] {
    float local = 0;
    release(&local);
  });
  must_be_caught("set uses device memory that is not allocated", [] {
    const Floats x = device_floats(10);
    release(x.data);
    set(default_stream(0), x, 1);
  });
  must_be_caught("set is given 44 bytes at byte 0 of 40", [] {
    const Floats x = device_floats(10);
    set(default_stream(0), {x.data, 11}, 1);
  });
}

TEST_CASE("With a quarantine a use after free is found although the size was allocated again") {
  const auto program = [](std::size_t quarantine) {
    settings().quarantine = quarantine;
    const Floats x = device_floats(10);
    release(x.data);
    device_floats(10);
    set(default_stream(0), x, 1);
  };
  must_be_right([=] { program(0); });
  must_be_caught("set uses device memory that is not allocated", [=] { program(1); });
}

TEST_CASE("Memory that another stream uses is freed after that stream's use is recorded") {
  const auto program = [](bool records) {
    Stream *const main = default_stream(0), *const side = new_stream(0);
    Floats x = device_floats(1 << 12);
    const Floats host = pinned_floats(1 << 12);
    set(main, x, 3);
    order(main, side);
    copy(side, x, host);
    if (records) record_use(x.data, side);
    release(x.data);
    x = device_floats(1 << 12);
    set(main, x, 4);
    synchronize(side, "a test");
    expect(host.data[7] == 3, "the number that was copied");
  };
  must_be_right([=] { program(true); });
  must_be_caught("race: a new allocation writes", [=] { program(false); });
}

TEST_CASE("New memory is no number") {
  must_be_right([] { expect(std::isnan(first_of(default_stream(0), device_floats(10))), "NaN"); });
  must_be_right([] {
    const Floats x = device_floats(10);
    set(default_stream(0), x, 1);
    release(x.data);
    const Floats again = device_floats(10);
    expect(again.data == x.data && std::isnan(first_of(default_stream(0), again)), "NaN in the same block");
  });
}

TEST_CASE("The cache serves what was freed, and counts what it could not serve") {
  must_be_right([] {
    for (int step = 0; step < 3; ++step) {
      const Floats x = device_floats(1000), y = device_floats(2000);
      release(x.data), release(y.data);
    }
    const Counters c = counters(0);
    expect(c.allocations == 6 && c.growths == 2, "the counts");
    expect(c.allocated == 0 && c.peak == 4096 + 8192 && c.reserved == c.peak, "the bytes");
  });
}

TEST_CASE("Memory is limited, and the cache gives back what others need") {
  must_be_caught("CUDA out of memory", [] {
    settings().memory = mebibyte;
    allocate(0, 2 * mebibyte);
  });
  must_be_right([] {
    settings().memory = mebibyte;
    release(allocate(0, mebibyte / 2 + 512));
    allocate(0, mebibyte);
    expect(counters(0).waits.size() == 1, "one wait, as of cudaFree()");
  });
}

TEST_CASE("Pinned memory is closed to the host until it has waited") {
  const auto read = [](bool waits) {
    const Floats x = device_floats(100), host = pinned_floats(100);
    set(default_stream(0), x, 3);
    copy(default_stream(0), x, host);
    if (waits) synchronize(default_stream(0), "a test");
    expect(host.data[7] == 3, "the number that was copied");
  };
  must_be_right([=] { read(true); });
  must_be_caught("the host touches pinned memory while copy is pending", [=] { read(false); });
  const auto overwrite = [](bool waits) {
    const Floats x = device_floats(100), host = pinned_floats(100);
    host.data[0] = 1;
    copy(default_stream(0), host, x);
    expect(host.data[0] == 1, "reading is allowed");
    if (waits) synchronize(default_stream(0), "a test");
    host.data[0] = 2;
    expect(first_of(default_stream(0), x) == 1, "the number before");
  };
  must_be_right([=] { overwrite(true); });
  must_be_caught("the host touches pinned memory while copy is pending", [=] { overwrite(false); });
}

TEST_CASE("Device memory is closed to the host") {
  must_be_caught("the host touches memory of device 0", [] {
    const Floats x = device_floats(100);
    synchronize(default_stream(0), "a test");
    x.data[3] = 1;
  });
}

TEST_CASE("Pinned memory is freed once, not used afterwards, and not lent again while a copy runs") {
  must_be_caught("pinned memory is freed twice", [] {
    const Floats x = pinned_floats(10);
    release_pinned(x.data);
    release_pinned(x.data);
  });
  must_be_caught("copy uses pinned memory that is not allocated", [] {
    const Floats x = device_floats(10), host = pinned_floats(10);
    release_pinned(host.data);
    copy(default_stream(0), x, host);
  });
  must_be_right([] {
    const Floats host = pinned_floats(10);
    Stream* const side = new_stream(0);
    synchronize_device(0, "a test");
    enqueue(side, {"a long copy", {host.read()}, [] {}});
    release_pinned(host.data);
    const Floats other = pinned_floats(10);
    expect(other.data != host.data || query(side), "another block while the copy runs");
    release_pinned(other.data);
    synchronize(side, "a test");
    expect(counters(0).races == 0, "no race");
  });
}
